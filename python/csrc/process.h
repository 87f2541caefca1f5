/*
 * The process around a backend: forks, and signals that Python handles.
 */
#pragma once

#include <cstdint>

namespace lockstep
{

/* A number that differs between a child and its parent. */
uint64_t this_process();

/* The exception of a signal's handler in Python, which ends a wait. */
class Interrupt
{
  public:
    Interrupt() = default;
    ~Interrupt();
    Interrupt(const Interrupt &) = delete;
    Interrupt &operator=(const Interrupt &) = delete;

    /*
     * Runs the handlers of signals that have arrived, if this thread runs any.
     * True if one has raised an exception, in this call or an earlier one.
     */
    bool has_come();

    /* Throws that exception, if any. PyTorch gives it back to Python. */
    void raise() const;

  private:
    void *error_ = nullptr; /* a reference to Python's object, or NULL */
};

/* Runs the handlers of signals, and throws what one of them raises. */
void check_signals();

/* While it exists, this thread does not hold Python's lock. */
class WithoutPython
{
  public:
    WithoutPython();
    ~WithoutPython();
    WithoutPython(const WithoutPython &) = delete;
    WithoutPython &operator=(const WithoutPython &) = delete;

  private:
    void *state_ = nullptr;
};

} // namespace lockstep

/*
 * The process around a backend: forks, and signals that Python handles.
 */
#pragma once

#include <cstdint>

namespace lockstep
{

/* A number that differs between a child and its parent. */
uint64_t this_process();

/*
 * Throws the exception of a signal's handler in Python, if this thread runs
 * any.
 */
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

/*
 * The process around a backend: forks, and signals that Python handles.
 */
#pragma once

#include <cstdint>

namespace lockstep
{

/* A number that a child does not share with who forked it. */
uint64_t this_process();

/* Throws what a handler of a signal throws in Python, if this thread runs
   any. */
void check_signals();

/* While it is there, this thread does not hold Python's lock. */
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

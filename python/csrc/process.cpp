/*
 * Forks, signals and the lock of the interpreter.
 */
#include "process.h"

#include <atomic>

#include <pthread.h>
#include <torch/csrc/utils/pybind.h>

namespace lockstep
{
namespace
{

std::atomic<uint64_t> generation{0};

const int watched = pthread_atfork(nullptr, nullptr, [] { generation++; });

} // namespace

uint64_t this_process()
{
    return generation.load(std::memory_order_relaxed);
}

/* Threads that Python does not know run no handlers. */
void check_signals()
{
    if (!Py_IsInitialized() || PyGILState_GetThisThreadState() == nullptr)
        return;
    const pybind11::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() != 0)
        throw pybind11::error_already_set();
}

WithoutPython::WithoutPython()
{
    if (Py_IsInitialized() && PyGILState_Check())
        state_ = PyEval_SaveThread();
}

WithoutPython::~WithoutPython()
{
    if (state_ != nullptr)
        PyEval_RestoreThread(static_cast<PyThreadState *>(state_));
}

} // namespace lockstep

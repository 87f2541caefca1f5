/*
 * Forks, signals and the lock of the interpreter.
 *
 * Python's functions are declared here, as no version of its headers serves all
 * versions. They belong to its stable ABI, except PyGILState_Check, which every
 * version exports.
 */
#include "process.h"

#include <atomic>

#include <ATen/core/dispatch/Dispatcher.h>
#include <pthread.h>

extern "C" {
int Py_IsInitialized(void);
void Py_DecRef(void *object);
void PyErr_Fetch(void **type, void **value, void **traceback);
void PyErr_NormalizeException(void **type, void **value, void **traceback);
int PyErr_CheckSignals(void);
int PyException_SetTraceback(void *exception, void *traceback);
void *PyEval_SaveThread(void);
void PyEval_RestoreThread(void *state);
int PyGILState_Check(void);
int PyGILState_Ensure(void);
void PyGILState_Release(int state);
void *PyGILState_GetThisThreadState(void);
}

namespace lockstep
{
namespace
{

std::atomic<uint64_t> generation{0};

const int watched = pthread_atfork(nullptr, nullptr, [] { generation++; });

/* While it exists, this thread holds Python's lock. */
class WithPython
{
  public:
    WithPython() : state_(PyGILState_Ensure())
    {
    }
    ~WithPython()
    {
        PyGILState_Release(state_);
    }
    WithPython(const WithPython &) = delete;
    WithPython &operator=(const WithPython &) = delete;

  private:
    const int state_;
};

} // namespace

uint64_t this_process()
{
    return generation.load(std::memory_order_relaxed);
}

/* ---- signals ------------------------------------------------------------- */

Interrupt::~Interrupt()
{
    if (error_ == nullptr || !Py_IsInitialized())
        return;
    const WithPython held;
    Py_DecRef(error_);
}

/* Threads that Python does not know run no handlers. */
bool Interrupt::has_come()
{
    if (error_ != nullptr)
        return true;
    if (!Py_IsInitialized() || PyGILState_GetThisThreadState() == nullptr)
        return false;
    const WithPython held;
    if (PyErr_CheckSignals() == 0)
        return false;
    void *type = nullptr;
    void *traceback = nullptr;
    PyErr_Fetch(&type, &error_, &traceback);
    PyErr_NormalizeException(&type, &error_, &traceback);
    if (traceback != nullptr)
        (void)PyException_SetTraceback(error_, traceback);
    Py_DecRef(type);
    Py_DecRef(traceback);
    return true;
}

/*
 * The operator is a function in Python. So PyTorch throws the exception, whose
 * class in C++ needs Python's headers. No mode of dispatch sees the call.
 */
void Interrupt::raise() const
{
    if (error_ == nullptr)
        return;
    static const c10::OperatorHandle function =
        c10::Dispatcher::singleton().findSchemaOrThrow("lockstep::raise_error",
                                                       "");
    torch::jit::Stack arguments{reinterpret_cast<int64_t>(error_)};
    function.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU),
                             &arguments);
}

void check_signals()
{
    Interrupt interrupt;
    if (interrupt.has_come())
        interrupt.raise();
}

/* ---- the lock ------------------------------------------------------------ */

WithoutPython::WithoutPython()
{
    if (Py_IsInitialized() && PyGILState_Check())
        state_ = PyEval_SaveThread();
}

WithoutPython::~WithoutPython()
{
    if (state_ != nullptr)
        PyEval_RestoreThread(state_);
}

} // namespace lockstep

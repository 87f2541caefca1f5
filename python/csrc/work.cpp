/*
 * The life of an operation: started, completed, its future marked.
 */
#include "work.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include "engine.h"

namespace lockstep
{
namespace
{

c10::intrusive_ptr<c10::ivalue::Future> new_future()
{
    return c10::make_intrusive<c10::ivalue::Future>(
        c10::ListType::create(c10::TensorType::get()));
}

} // namespace

Step together(std::vector<Step> steps)
{
    return [steps = std::move(steps)](ls_group *group, Work &work) {
        for (const Step &step : steps) {
            const ls_status status = step(group, work);
            if (status != LS_OK)
                return status;
        }
        return LS_OK;
    };
}

Work::Work(std::shared_ptr<Engine> engine, int rank, uint64_t sequence,
           Operation &&operation)
    : c10d::Work(rank, operation.type, operation.title, operation.inputs),
      engine_(std::move(engine)), sequence_(sequence),
      operation_(std::move(operation))
{
}

/* ---- for programs -------------------------------------------------------- */

/* Polling for completion moves the operation forward. */
bool Work::isCompleted()
{
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (completed_)
            return true;
    }
    engine_->poll(*this);
    const std::lock_guard<std::mutex> lock(mutex_);
    return completed_;
}

bool Work::wait(std::chrono::milliseconds timeout)
{
    engine_->await(*this, timeout);
    const std::lock_guard<std::mutex> lock(mutex_);
    if (exception_)
        std::rethrow_exception(exception_);
    return true;
}

/* An operation cannot be ended without those of its group. */
void Work::abort()
{
    engine_->abort();
}

std::vector<at::Tensor> Work::result()
{
    TORCH_CHECK(
        isCompleted(),
        "lockstep: the operation has not finished, so it has no result yet; "
        "call wait() first");
    return operation_.result;
}

c10::intrusive_ptr<c10::ivalue::Future> Work::getFuture()
{
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (future_)
            return future_;
        future_ = new_future();
        if (completed_) {
            mark_future(); /* nothing hangs on it yet */
            return future_;
        }
    }
    engine_->tend(*this);
    return future_;
}

/* ---- for the engine ------------------------------------------------------ */

ls_request **Work::request()
{
    requests_.push_back(nullptr);
    return &requests_.back();
}

bool Work::complete()
{
    if (!failure_) {
        try {
            const at::AutoDispatchBelowADInplaceOrView no_grad;
            for (const auto &part : operation_.after)
                part();
        } catch (...) {
            failure_ = std::current_exception();
        }
    }
    bool wanted = false;
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        completed_ = true;
        exception_ = failure_;
        wanted = future_ != nullptr;
        if (recordFunctionEndCallback_) {
            recordFunctionEndCallback_();
            recordFunctionEndCallback_ = nullptr;
        }
    }
    cv_.notify_all();
    return wanted;
}

void Work::mark_future()
{
    if (exception_)
        future_->setError(exception_);
    else
        future_->markCompleted(c10::IValue(operation_.result));
}

void Work::release()
{
    operation_.steps.clear();
    operation_.after.clear();
    operation_.kept.clear();
    operation_.inputs.clear();
}

void Work::sleep(std::chrono::milliseconds time)
{
    std::unique_lock<std::mutex> lock(mutex_);
    cv_.wait_for(lock, time, [this] { return completed_; });
}

} // namespace lockstep

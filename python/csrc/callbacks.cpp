/* Threads are detached, since callbacks may not return. */
#include "callbacks.h"

#include <chrono>
#include <thread>

#include <c10/util/thread_name.h>

namespace lockstep
{
namespace
{

/* The callbacks whose thread this is, if any. */
thread_local const void *own = nullptr;

} // namespace

void Callbacks::post(c10::intrusive_ptr<Work> work)
{
    {
        const std::lock_guard<std::mutex> lock(state_->mutex);
        state_->works.push_back(std::move(work));
        if (state_->idle < state_->works.size()) {
            state_->threads++;
            std::thread(serve, state_).detach();
        }
    }
    state_->changed.notify_all();
}

void Callbacks::serve(const std::shared_ptr<State> &state)
{
    c10::setThreadName("lockstep_calls");
    own = state.get();
    std::unique_lock<std::mutex> lock(state->mutex);
    for (;;) {
        state->idle++;
        state->changed.wait(
            lock, [&] { return state->stop || !state->works.empty(); });
        state->idle--;
        if (state->works.empty())
            break;
        c10::intrusive_ptr<Work> work = std::move(state->works.front());
        state->works.pop_front();
        lock.unlock();
        work->mark_future();
        work.reset();
        lock.lock();
    }
    state->threads--;
    lock.unlock();
    state->changed.notify_all();
}

void Callbacks::stop()
{
    std::unique_lock<std::mutex> lock(state_->mutex);
    state_->stop = true;
    state_->changed.notify_all();
    const size_t left = own == state_.get() ? 1 : 0;
    state_->changed.wait_for(lock, std::chrono::seconds(1),
                             [&] { return state_->threads <= left; });
}

} // namespace lockstep

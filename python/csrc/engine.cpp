/* The queue of a group: which threads move it forward, and how it ends. */
#include "engine.h"

#include <algorithm>
#include <cmath>

#include <c10/util/thread_name.h>

#include "library.h"
#include "process.h"

namespace lockstep
{
namespace
{

using std::chrono::milliseconds;
using std::chrono::steady_clock;

/* How long one thread may keep others from the group, in seconds: at first, and
   when nothing has come for long. */
constexpr double SLICE = 1e-3;
constexpr double SLICE_OF_THREAD = 2e-4;
constexpr double LAST_SLICE = 5e-3;

/* The time for operations in flight to end when the group is left. */
constexpr milliseconds LAST_WAIT{1000};

/* Between two checks for Python's signals. */
constexpr milliseconds SIGNALS{40};

const char *const CLOSED = "lockstep: the process group was destroyed or shut "
                           "down; create a new process group";

double seconds_of(milliseconds time)
{
    return std::max(0.0, static_cast<double>(time.count()) * 1e-3);
}

/* The next of slices in which nothing has come. */
double longer(double slice)
{
    return std::min(slice * 1.25, LAST_SLICE);
}

bool receives(const Work &work)
{
    const c10d::OpType type = work.retrieveOpType();
    return type == c10d::OpType::RECV || type == c10d::OpType::RECVANYSOURCE;
}

} // namespace

Engine::Engine(ls_group *group)
    : group_(group), rouse_(std::make_unique<std::condition_variable>()),
      process_(this_process())
{
}

Engine::~Engine()
{
    close(Shared::FREED);
}

/* In a child, a thread that does not exist may be in the door for ever. */
void Engine::check_process() const
{
    TORCH_CHECK_WITH(
        DistBackendError, process_ == this_process(),
        "lockstep: this process was forked after its process group was "
        "created; only the process that created the group can use it");
}

/* ---- with the door held -------------------------------------------------- */

/* The time counts from a waiter's start, so the latest waiter sets it. */
void Engine::set_timeout(const Work &work)
{
    const double wanted = seconds_of(work.operation_.timeout);
    if (wanted == timeout_)
        return;
    timeout_ = wanted;
    ls_ignore(ls_group_set_timeout(group_, wanted));
}

/* Timeouts also have gloo's words, which programs look for. */
std::exception_ptr Engine::failure_of(ls_status status) const
{
    if (status != LS_ERR_TIMEOUT)
        return failure(status);
    return failure(c10::str(ls_last_error(), "\nlockstep: Timed out waiting ",
                            std::llround(timeout_ * 1e3),
                            "ms for the operation to complete"));
}

/* Whether there was a step. Its exceptions are the operation's failure. */
bool Engine::begin_step(Work &work)
{
    if (work.failure_ || work.next_step_ == work.operation_.steps.size())
        return false;
    work.requests_.clear();
    work.next_request_ = 0;
    try {
        const ls_status status =
            work.operation_.steps[work.next_step_++](group_, work);
        if (status != LS_OK)
            work.failure_ = failure_of(status);
    } catch (...) {
        work.failure_ = std::current_exception();
    }
    if (!work.requests_.empty() && work.requests_.back() == nullptr)
        work.requests_.pop_back();
    return true;
}

/* Whether the step is over. Tests its next request, or waits for it. */
bool Engine::move(Work &work, double seconds)
{
    do {
        while (work.next_request_ < work.requests_.size()) {
            ls_request **request = &work.requests_[work.next_request_];
            const ls_status status = seconds > 0
                                         ? ls_wait_for(*request, seconds)
                                         : ls_test(*request);
            if (status == LS_IN_PROGRESS)
                return false;
            if (status != LS_OK && !work.failure_)
                work.failure_ = failure_of(status);
            if (status == LS_OK && receives(work))
                ls_ignore(ls_request_source(*request, &work.source_));
            ls_request_free(request);
            work.next_request_++;
        }
    } while (begin_step(work));
    return true;
}

/* One that has not been started waits for the first to be over. */
void Engine::drive(Work &work, double seconds)
{
    Work &first = work.next_step_ > 0 ? work : *flight_.front();
    set_timeout(work);
    (void)move(first, seconds);
}

/* Collectives are done in order; messages when they are. */
void Engine::sweep(Works &finished)
{
    bool behind = false;
    for (size_t i = 0; i < flight_.size();) {
        Work &work = *flight_[i];
        const bool ordered = !c10d::isP2POp(work.retrieveOpType());
        if ((behind && ordered) || !move(work, 0)) {
            behind = behind || ordered;
            i++;
            continue;
        }
        work.in_flight_ = false;
        if (!work.operation_.awaited)
            alone_--;
        finished.push_back(std::move(flight_[i]));
        flight_.erase(flight_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    if (!delayed_.empty())
        start_delayed(finished);
}

/*
 * While one has steps left, which must come before what others start, these
 * have to wait.
 */
void Engine::start_delayed(Works &finished)
{
    const auto has_steps = [](const c10::intrusive_ptr<Work> &work) {
        return work->next_step_ < work->operation_.steps.size();
    };
    bool moved = false;
    while (!delayed_.empty() &&
           std::none_of(flight_.begin(), flight_.end(), has_steps)) {
        (void)begin_step(*delayed_.front());
        flight_.push_back(std::move(delayed_.front()));
        delayed_.pop_front();
        moved = true;
    }
    if (moved)
        sweep(finished);
}

/* ---- leaving the door ---------------------------------------------------- */

/* In the order in which they were found done, also if two threads find some. */
void Engine::settle(std::unique_lock<Door> &&door, Works &finished)
{
    if (finished.empty()) {
        door.unlock();
        return;
    }
    {
        const std::lock_guard<std::mutex> in_order(finishing_);
        door.unlock();
        for (const auto &work : finished)
            if (work->complete())
                callbacks_.post(work);
    }
    for (const auto &work : finished) /* may need Python's lock */
        work->release();
}

/* ---- starting and waiting ------------------------------------------------ */

void Engine::launch(const c10::intrusive_ptr<Work> &work)
{
    Works finished;
    check_process();
    std::unique_lock<Door> door(door_);
    TORCH_CHECK_WITH(DistBackendError, group_ != nullptr, CLOSED);
    work->in_flight_ = true;
    const bool lone = !work->operation_.awaited;
    if (lone)
        alone_++;
    if (flight_.empty())
        set_timeout(*work);
    if (c10d::isP2POp(work->retrieveOpType())) {
        flight_.push_back(work); /* its peer may wait for it first */
        (void)begin_step(*work);
        sweep(finished);
    } else {
        delayed_.push_back(work);
        start_delayed(finished);
    }
    const bool left = work->in_flight_;
    settle(std::move(door), finished);
    if (left && lone)
        wake();
}

void Engine::poll(Work &work)
{
    Works finished;
    check_process();
    std::unique_lock<Door> door(door_);
    if (group_ != nullptr && work.in_flight_)
        sweep(finished);
    settle(std::move(door), finished);
}

void Engine::tend(Work &work)
{
    check_process();
    {
        const std::lock_guard<Door> door(door_);
        if (!work.in_flight_ || !work.operation_.awaited)
            return;
        work.operation_.awaited = false;
        alone_++;
    }
    wake();
}

void Engine::give_up(Work &work)
{
    const std::lock_guard<Door> door(door_);
    work.given_up_ = true;
}

void Engine::await(Work &work, milliseconds timeout)
{
    check_process();
    const auto began = steady_clock::now();
    auto last_check = began;
    struct Waiting {
        Engine &engine;
        explicit Waiting(Engine &e) : engine(e)
        {
            engine.waiting_++;
        }
        ~Waiting()
        {
            if (--engine.waiting_ == 0 && engine.alone_ > 0)
                engine.wake();
        }
    } const waiting(*this);
    double slice = SLICE;
    for (;;) {
        Works finished;
        std::unique_lock<Door> door(door_);
        const bool ours = work.in_flight_ && group_ != nullptr;
        if (ours) {
            drive(work, slice);
            sweep(finished);
            slice = finished.empty() ? longer(slice) : SLICE;
        }
        const bool left = work.in_flight_;
        settle(std::move(door), finished);
        if (!left)
            work.sleep(SIGNALS);
        {
            const std::lock_guard<std::mutex> lock(work.mutex_);
            if (work.completed_)
                return;
        }
        const auto now = steady_clock::now();
        if (timeout.count() > 0 && now - began >= timeout) {
            give_up(work);
            std::rethrow_exception(failure(c10::str(
                "lockstep: waited for ", timeout.count(),
                " ms, but the operation has not finished (Operation timed "
                "out!)")));
        }
        if (now - last_check >= SIGNALS) {
            last_check = now;
            try {
                check_signals();
            } catch (...) {
                give_up(work);
                throw;
            }
        }
    }
}

/* ---- the thread ---------------------------------------------------------- */

void Engine::wake()
{
    const std::lock_guard<std::mutex> lock(resting_);
    if (stop_ || process_ != this_process())
        return;
    if (!thread_.joinable())
        thread_ = std::thread(&Engine::serve, this);
    else if (resting_now_)
        rouse_->notify_one();
}

void Engine::serve()
{
    c10::setThreadName("lockstep");
    double slice = SLICE_OF_THREAD;
    for (;;) {
        {
            std::unique_lock<std::mutex> lock(resting_);
            resting_now_ = true;
            rouse_->wait(lock, [this] {
                return stop_ || (alone_ > 0 && waiting_ == 0);
            });
            resting_now_ = false;
            if (stop_)
                return;
        }
        Works finished;
        std::unique_lock<Door> door(door_);
        if (group_ != nullptr && !flight_.empty() && waiting_ == 0) {
            drive(*flight_.front(), slice);
            sweep(finished);
        }
        slice = finished.empty() ? longer(slice) : SLICE_OF_THREAD;
        settle(std::move(door), finished);
    }
}

/* ---- shared memory ------------------------------------------------------- */

void *Engine::allocate_shared(size_t bytes)
{
    check_process();
    const std::lock_guard<Door> door(door_);
    TORCH_CHECK_WITH(DistBackendError, group_ != nullptr, CLOSED);
    void *memory = nullptr;
    check(ls_shared_alloc(group_, bytes, &memory));
    shared_.push_back(memory);
    return memory;
}

void *Engine::peer_of(const void *shared, int rank)
{
    check_process();
    const std::lock_guard<Door> door(door_);
    TORCH_CHECK_WITH(DistBackendError, group_ != nullptr, CLOSED);
    return ls_shared_peer(group_, shared, rank);
}

bool Engine::is_own_thread()
{
    const std::lock_guard<std::mutex> lock(resting_);
    return thread_.get_id() == std::this_thread::get_id();
}

/* The mappings stay until the process ends. */
void Engine::keep_shared()
{
    for (void *memory : shared_) {
        size_t bytes = 0;
        void *mapping = nullptr;
        ls_ignore(ls_shared_keep(group_, memory, &mapping, &bytes));
    }
}

/* ---- the end ------------------------------------------------------------- */

void Engine::abort()
{
    const std::lock_guard<std::mutex> lock(aborting_);
    if (process_ == this_process() && group_ != nullptr)
        ls_group_abort(group_);
}

/* Of what nobody has given up waiting for. */
bool Engine::is_awaited_still() const
{
    return group_ != nullptr && !flight_.empty() &&
           std::none_of(flight_.begin(), flight_.end(),
                        [](const auto &work) { return work->given_up_; });
}

/* A program need not have waited for what it has started last. */
void Engine::drain()
{
    const auto until = steady_clock::now() + LAST_WAIT;
    for (bool left = true; left && steady_clock::now() < until;) {
        Works finished;
        std::unique_lock<Door> door(door_);
        left = is_awaited_still();
        if (left) {
            drive(*flight_.front(), LAST_SLICE);
            sweep(finished);
        }
        settle(std::move(door), finished);
    }
}

/* Whether this call has. A second one waits for the first. */
bool Engine::leave(Shared shared)
{
    const std::lock_guard<std::mutex> alone(closing_);
    drain();
    {
        const std::lock_guard<std::mutex> lock(resting_);
        stop_ = true;
        rouse_->notify_one();
    }
    if (thread_.joinable())
        thread_.join();
    Works finished;
    {
        std::unique_lock<Door> door(door_);
        if (group_ == nullptr)
            return false;
        sweep(finished);
        if (!flight_.empty())
            ls_group_abort(group_);
        for (auto *works : {&flight_, &delayed_})
            for (auto &work : *works) {
                work->in_flight_ = false;
                if (!work->failure_)
                    work->failure_ = failure(CLOSED);
                for (ls_request *&request : work->requests_)
                    ls_request_free(&request);
                finished.push_back(std::move(work));
            }
        flight_.clear();
        delayed_.clear();
        const std::lock_guard<std::mutex> lock(aborting_);
        if (shared == Shared::KEPT)
            keep_shared();
        ls_group_close(&group_);
        settle(std::move(door), finished);
    }
    return true;
}

/*
 * A child that was forked has neither the thread nor a place in the group. It
 * cannot destroy the condition variable on which the thread sleeps: destroying
 * waits for the sleeper.
 */
void Engine::close(Shared shared)
{
    if (process_ != this_process()) {
        if (thread_.joinable())
            thread_.detach();
        (void)rouse_.release();
        return;
    }
    if (leave(shared))
        callbacks_.stop();
}

} // namespace lockstep

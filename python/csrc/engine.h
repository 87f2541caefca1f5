/*
 * The engine, which moves the operations of a group forward.
 *
 * Nothing blocks when it starts: an operation is done at once if all ranks have
 * arrived, and is in flight otherwise. A thread that waits for one moves all of
 * them; a thread of the engine moves those for which nobody waits. A group of
 * the library belongs to one thread at a time: the one in the door.
 *
 * Operations complete in the order of their start. Other threads mark their
 * futures, which runs the callbacks of programs (callbacks.h).
 */
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "callbacks.h"
#include "work.h"

namespace lockstep
{

/* A fair lock: threads get it in turn, not the one that has just had it. */
class Door
{
  public:
    void lock()
    {
        const std::lock_guard<std::mutex> next(next_);
        inside_.lock();
    }
    void unlock()
    {
        inside_.unlock();
    }

  private:
    std::mutex next_;
    std::mutex inside_;
};

class Engine
{
  public:
    /* Becomes the owner of the group. */
    explicit Engine(ls_group *group);
    ~Engine();
    Engine(const Engine &) = delete;
    Engine &operator=(const Engine &) = delete;

    void launch(const c10::intrusive_ptr<Work> &work);

    /* Throws in a child of the process that made it. */
    void check_process() const;

    /*
     * Returns when the work is done. Throws after the timeout (0: none), or
     * when a signal's handler in Python throws.
     */
    void await(Work &work, std::chrono::milliseconds timeout);

    /* Moves the work forward a little. */
    void poll(Work &work);

    /*
     * Has the thread move the work forward, although the caller was to wait for
     * it.
     */
    void tend(Work &work);

    /* Ends all waiting on all ranks. From any thread. */
    void abort();

    /* Allocates memory that all ranks map, until the group ends. Collective. */
    void *allocate_shared(size_t bytes);
    void *peer_of(const void *shared, int rank);

    /*
     * Whether this is the thread of the engine, which cannot close the engine.
     */
    bool is_own_thread();

    /* Shared memory of the group when it is left. */
    enum class Shared { FREED, KEPT };

    /*
     * Leaves the group. Operations in flight have a second to end, unless a
     * waiter has given up on one of them, and fail then.
     */
    void close(Shared shared);

  private:
    using Works = std::vector<c10::intrusive_ptr<Work>>;

    void serve();
    void wake();
    void give_up(Work &work);
    bool is_awaited_still() const;
    void drain();
    bool leave(Shared shared);

    /* With the door held. */
    bool begin_step(Work &work);
    bool move(Work &work, double seconds);
    void drive(Work &work, double seconds);
    void sweep(Works &finished);
    void start_delayed(Works &finished);
    void set_timeout(const Work &work);
    void keep_shared();
    std::exception_ptr failure_of(ls_status status) const;
    void settle(std::unique_lock<Door> &&door, Works &finished);

    Door door_;
    ls_group *group_;                              /* NULL: closed */
    std::deque<c10::intrusive_ptr<Work>> flight_;  /* in order of their start */
    std::deque<c10::intrusive_ptr<Work>> delayed_; /* until a step may follow */
    double timeout_ = -1;        /* of the group, in seconds */
    std::vector<void *> shared_; /* memory from allocate_shared */

    std::mutex finishing_; /* taken with the door held, kept without it */
    Callbacks callbacks_;

    std::atomic<int> alone_{0};   /* in flight, and nobody need wait for them */
    std::atomic<int> waiting_{0}; /* threads that wait for one */
    std::mutex aborting_; /* so that the group is not closed meanwhile */
    std::mutex resting_;
    std::unique_ptr<std::condition_variable> rouse_;
    bool stop_ = false;        /* under resting_ */
    bool resting_now_ = false; /* the same */
    std::thread thread_;
    std::mutex closing_;

    const uint64_t process_; /* in which it was made */
};

} // namespace lockstep

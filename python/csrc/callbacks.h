/*
 * Threads that mark futures, which runs the callbacks of programs.
 *
 * Such a callback may start operations and wait for them, so it must not delay
 * threads that move operations forward. Operations that it waits for may have
 * callbacks, too, so another thread is made if all are busy. Callbacks begin in
 * the order in which the operations completed.
 */
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>

#include "work.h"

namespace lockstep
{

class Callbacks
{
  public:
    void post(c10::intrusive_ptr<Work> work);

    /*
     * Returns once all posted callbacks have run, but waits at most a second
     * for those that do not return.
     */
    void stop();

  private:
    struct State {
        std::mutex mutex;
        std::condition_variable changed;
        std::deque<c10::intrusive_ptr<Work>> works;
        size_t threads = 0;
        size_t idle = 0;
        bool stop = false;
    };

    static void serve(const std::shared_ptr<State> &state);

    /* Shared with the threads, which may outlive this. */
    const std::shared_ptr<State> state_ = std::make_shared<State>();
};

} // namespace lockstep

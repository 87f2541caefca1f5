/*
 * Threads that mark futures, which runs what programs have hung on them.
 *
 * Such a callback may start operations and wait for them, so it holds up no
 * thread that moves any on; and what it waits for may have callbacks, too, so
 * another thread is made if all are busy. They begin in the order in which the
 * operations were done.
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

    /* Returns once what was posted has run, but waits no longer than a second
       for what does not return. */
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

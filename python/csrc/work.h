/*
 * An operation that a program has started, as PyTorch sees it.
 */
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <ATen/core/ivalue.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "lockstep/group.h"

namespace lockstep
{

class Engine;
class Work;

/* Starts a part of an operation: makes requests at work.request(). */
using Step = std::function<ls_status(ls_group *group, Work &work)>;

/* All of them, in flight at once. */
Step together(std::vector<Step> steps);

/* The parts of an operation. */
struct Operation {
    c10d::OpType type;
    const char *title; /* for the profiler, or NULL */
    std::chrono::milliseconds timeout;
    bool awaited; /* the caller waits at once */
    /* One after the other; the last is followed by `after`. */
    std::vector<Step> steps = {};
    /* Outside of all locks that others need, once the library has finished. */
    std::vector<std::function<void()>> after = {};
    std::vector<at::Tensor> result = {};
    std::vector<at::Tensor> kept = {};   /* what the library reads and writes */
    std::vector<at::Tensor> inputs = {}; /* for the profiler */
};

class Work final : public c10d::Work
{
  public:
    Work(std::shared_ptr<Engine> engine, int rank, uint64_t sequence,
         Operation &&operation);

    /* ---- for programs ---- */
    bool isCompleted() override;
    bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
    void synchronize() override
    {
    }
    void abort() override;
    int sourceRank() const override
    {
        return source_;
    }
    std::vector<at::Tensor> result() override;
    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
    uint64_t getSequencenumber() const override
    {
        return sequence_;
    }
    /* Without `override`: PyTorch 2.6 does not have it. */
    std::chrono::milliseconds getTimeout() const
    {
        return operation_.timeout;
    }

    /* ---- for the engine, with its door held ---- */

    /* Where a step puts a request, which the work then owns. */
    ls_request **request();

    /* ---- for the engine, without it ---- */

    /* Makes the results available; whether a future waits for mark_future. */
    bool complete();
    void mark_future();
    /* Releases the data that only the library needed. */
    void release();
    /* Waits until another thread has completed the work, or for `time`. */
    void sleep(std::chrono::milliseconds time);

  private:
    friend class Engine;

    const std::shared_ptr<Engine> engine_;
    const uint64_t sequence_;
    Operation operation_;
    int source_ = -1; /* of a message that has been received */

    /* The engine's, under its door. */
    bool in_flight_ = false;
    bool given_up_ = false; /* by somebody who has waited for it */
    size_t next_step_ = 0;
    std::vector<ls_request *> requests_;
    size_t next_request_ = 0;
    std::exception_ptr failure_;

    c10::intrusive_ptr<c10::ivalue::Future> future_; /* under mutex_ */
};

} // namespace lockstep

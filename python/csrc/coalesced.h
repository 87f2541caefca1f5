/*
 * Several operations that a program waits for as if they were one.
 */
#pragma once

#include <vector>

#include <torch/csrc/distributed/c10d/Work.hpp>

namespace lockstep
{

class Coalesced final : public c10d::Work
{
  public:
    Coalesced(int rank, std::vector<c10::intrusive_ptr<c10d::Work>> works);

    bool isCompleted() override;
    bool isSuccess() const override;
    std::exception_ptr exception() const override;
    /* The timeout is for each operation. */
    bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
    void synchronize() override
    {
    }
    void abort() override;
    std::vector<at::Tensor> result() override;
    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

  private:
    const std::vector<c10::intrusive_ptr<c10d::Work>> works_;
};

} // namespace lockstep

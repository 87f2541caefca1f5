/*
 * The backend: what torch.distributed calls on tensors, as operations of the
 * library.
 */
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "engine.h"

namespace lockstep
{

using Tensors = std::vector<at::Tensor>;
using TensorLists = std::vector<Tensors>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

class Backend final : public c10d::Backend
{
  public:
    /*
     * Connects to the other ranks, with this timeout. `name` is the name under
     * which the program has registered the backend.
     */
    Backend(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
            std::chrono::milliseconds timeout, std::string name);
    ~Backend() override;

    const std::string getBackendName() const override
    {
        return name_;
    }
    /* Without `override`: PyTorch 2.6 does not have these. */
    void setTimeout(std::chrono::milliseconds timeout);
    void abort();
    void shutdown();

    /*
     * A tensor as `like`, in one dimension and in memory that all ranks map.
     * The tensor keeps the backend. Collective.
     */
    at::Tensor shared_like(const at::Tensor &like);
    /* The part of another rank; NULL if the rank is on another machine. */
    void *peer_of(const void *shared, int rank);
    uint64_t getSequenceNumberForGroup() override
    {
        return sequence_;
    }
    void setSequenceNumberForGroup() override
    {
    }

    /*
     * Makes one work of the operations that a thread starts in between. All of
     * them are in flight at once: none waits for endCoalescing.
     */
    void startCoalescing() override;
    WorkPtr endCoalescing() override;

    /* backend.cpp */
    WorkPtr broadcast(Tensors &tensors,
                      const c10d::BroadcastOptions &options) override;
    WorkPtr barrier(const c10d::BarrierOptions &options) override;
    void monitoredBarrier(const c10d::BarrierOptions &options,
                          bool all_ranks) override;

    /* reductions.cpp */
    WorkPtr allreduce(Tensors &tensors,
                      const c10d::AllreduceOptions &options) override;
    WorkPtr allreduce_sparse(Tensors &tensors,
                             const c10d::AllreduceOptions &options) override;
    WorkPtr allreduce_coalesced(
        Tensors &tensors,
        const c10d::AllreduceCoalescedOptions &options) override;
    WorkPtr reduce(Tensors &tensors,
                   const c10d::ReduceOptions &options) override;
    WorkPtr reduce_scatter(Tensors &outputs, TensorLists &inputs,
                           const c10d::ReduceScatterOptions &options) override;
    WorkPtr
    _reduce_scatter_base(at::Tensor &output, at::Tensor &input,
                         const c10d::ReduceScatterOptions &options) override;
    WorkPtr reduce_scatter_tensor_coalesced(
        Tensors &outputs, Tensors &inputs,
        const c10d::ReduceScatterOptions &options) override;

    /* gathers.cpp */
    WorkPtr allgather(TensorLists &outputs, Tensors &inputs,
                      const c10d::AllgatherOptions &options) override;
    WorkPtr _allgather_base(at::Tensor &output, at::Tensor &input,
                            const c10d::AllgatherOptions &options) override;
    WorkPtr allgather_coalesced(TensorLists &outputs, Tensors &inputs,
                                const c10d::AllgatherOptions &options) override;
    WorkPtr allgather_into_tensor_coalesced(
        Tensors &outputs, Tensors &inputs,
        const c10d::AllgatherOptions &options) override;
    WorkPtr gather(TensorLists &outputs, Tensors &inputs,
                   const c10d::GatherOptions &options) override;
    WorkPtr scatter(Tensors &outputs, TensorLists &inputs,
                    const c10d::ScatterOptions &options) override;
    WorkPtr alltoall(Tensors &outputs, Tensors &inputs,
                     const c10d::AllToAllOptions &options) override;
    WorkPtr alltoall_base(at::Tensor &output, at::Tensor &input,
                          std::vector<int64_t> &output_splits,
                          std::vector<int64_t> &input_splits,
                          const c10d::AllToAllOptions &options) override;

    /* messages.cpp */
    WorkPtr send(Tensors &tensors, int peer, int tag) override;
    WorkPtr recv(Tensors &tensors, int peer, int tag) override;
    WorkPtr recvAnysource(Tensors &tensors, int tag) override;

  private:
    ls_group *meet();
    void close(Engine::Shared shared);
    static void drop_reference(Backend *backend);
    WorkPtr launch(Operation &&operation);
    WorkPtr receive(Operation &&operation, Tensors &tensors, int peer, int tag);
    std::chrono::milliseconds
    timeout_of(std::chrono::milliseconds wanted) const;
    template <class Given>
    Operation begin(c10d::OpType type, const char *name,
                    const Given &options) const;
    const char *title_of(const char *name) const;
    int check_root(const char *name, int64_t root) const;
    void check_lists(const char *name, size_t lists, size_t length) const;

    const c10::intrusive_ptr<c10d::Store> store_;
    const std::string name_;
    std::string meeting_; /* the group's name in the store */
    std::atomic<int64_t> timeout_ms_;
    std::atomic<uint64_t> sequence_{0};
    uint64_t monitored_ = 0;
    bool coalescing_ = false; /* by the thread that starts operations */
    std::vector<WorkPtr> coalesced_;
    std::shared_ptr<Engine> engine_;
};

/* Whether the caller waits at once; before 2.8 options did not say. */
template <class Options>
auto is_awaited(const Options &options, int) -> decltype(options.asyncOp)
{
    return !options.asyncOp;
}
template <class Options> bool is_awaited(const Options &, long)
{
    return false;
}

/* Leaves all groups: before the interpreter ends. */
void shut_down_all();

template <class Given>
Operation Backend::begin(c10d::OpType type, const char *name,
                         const Given &options) const
{
    return {type, title_of(name), timeout_of(options.timeout),
            is_awaited(options, 0)};
}

} // namespace lockstep

/*
 * The operators of torch.ops.lockstep, by which the package in Python reaches
 * the backend. A group of one backend carries it between the two: PyTorch
 * passes groups to operators, but no backends.
 */
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/library.h>

#include "backend.h"

namespace
{

using Group = c10::intrusive_ptr<c10d::ProcessGroup>;

/* Lends the store of a group: PyTorch 2.6 has no getStore(). */
struct Lender : c10d::ProcessGroup {
    static const c10::intrusive_ptr<c10d::Store> &
    store_of(const c10d::ProcessGroup &group)
    {
        return group.*&Lender::store_;
    }
};

/* Gives the group a backend, which connects the ranks. */
void create(const Group &group, int64_t timeout_ms, const std::string &name)
{
    group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::CUSTOM,
                      c10::make_intrusive<lockstep::Backend>(
                          Lender::store_of(*group), group->getRank(),
                          group->getSize(),
                          std::chrono::milliseconds(timeout_ms), name));
}

at::Tensor shared_like(const Group &group, const at::Tensor &like)
{
    const auto backend = group->getBackend(c10::DeviceType::CPU);
    auto *const ours = dynamic_cast<lockstep::Backend *>(backend.get());
    TORCH_CHECK_TYPE(ours != nullptr, "shared_like: the backend is '",
                     backend->getBackendName(),
                     "'; it must be a backend of lockstep_torch");
    return ours->shared_like(like);
}

} // namespace

TORCH_LIBRARY(lockstep, library)
{
    library.def("create", create);
    library.def("shared_like", shared_like);
    library.def("shut_down_all", lockstep::shut_down_all);
    library.def("raise_error(int address) -> ()"); /* written in Python */
}

/*
 * Dense memory for tensors of any strides, and the checks that come first.
 */
#include "parts.h"

#include <algorithm>

#include <ATen/core/LegacyTypeDispatch.h>

namespace lockstep
{
namespace
{

at::Tensor keep(Operation &operation, at::Tensor tensor)
{
    operation.kept.push_back(tensor);
    return tensor;
}

/* Whether each begins where the one before it ends, as parts of one tensor. */
bool adjoin(const std::vector<at::Tensor> &tensors)
{
    const auto *next = static_cast<const char *>(tensors[0].const_data_ptr());
    for (const at::Tensor &tensor : tensors) {
        if (!tensor.is_contiguous() || tensor.is_conj() || tensor.is_neg() ||
            !tensor.is_alias_of(tensors[0]) || tensor.const_data_ptr() != next)
            return false;
        next += tensor.nbytes();
    }
    return true;
}

/* All of them, as one tensor without a copy. */
at::Tensor joined(const std::vector<at::Tensor> &tensors)
{
    int64_t count = 0;
    for (const at::Tensor &tensor : tensors)
        count += tensor.numel();
    return tensors[0].as_strided({count}, {1}, tensors[0].storage_offset());
}

bool lies_as_it_is_sent(const at::Tensor &tensor)
{
    return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
}

} // namespace

at::Tensor read_from(Operation &operation, const char *name,
                     const at::Tensor &tensor)
{
    check_dense(name, tensor);
    operation.inputs.push_back(tensor);
    if (lies_as_it_is_sent(tensor))
        return keep(operation, tensor);
    const at::AutoDispatchBelowADInplaceOrView no_grad;
    return keep(operation, tensor.contiguous().resolve_conj().resolve_neg());
}

at::Tensor written_to(Operation &operation, const char *name,
                      const at::Tensor &tensor)
{
    check_dense(name, tensor);
    if (lies_as_it_is_sent(tensor))
        return keep(operation, tensor);
    const at::Tensor dense = at::empty(tensor.sizes(), tensor.options());
    operation.after.push_back([=] { tensor.copy_(dense); });
    return keep(operation, dense);
}

at::Tensor updated(Operation &operation, const char *name,
                   const at::Tensor &tensor)
{
    const at::Tensor dense = written_to(operation, name, tensor);
    operation.inputs.push_back(tensor);
    if (!dense.is_same(tensor)) {
        const at::AutoDispatchBelowADInplaceOrView no_grad;
        dense.copy_(tensor);
    }
    return dense;
}

at::Tensor read_from(Operation &operation, const char *name,
                     const std::vector<at::Tensor> &tensors)
{
    for (const at::Tensor &tensor : tensors) {
        check_dense(name, tensor);
        operation.inputs.push_back(tensor);
    }
    const at::AutoDispatchBelowADInplaceOrView no_grad;
    if (adjoin(tensors))
        return keep(operation, joined(tensors));
    std::vector<at::Tensor> flat;
    for (const at::Tensor &tensor : tensors)
        flat.push_back(tensor.reshape({-1}));
    return keep(operation, at::cat(flat));
}

at::Tensor written_to(Operation &operation, const char *name,
                      const std::vector<at::Tensor> &tensors)
{
    int64_t count = 0;
    for (const at::Tensor &tensor : tensors) {
        check_dense(name, tensor);
        count += tensor.numel();
    }
    const at::AutoDispatchBelowADInplaceOrView no_grad;
    if (adjoin(tensors))
        return keep(operation, joined(tensors));
    const at::Tensor flat = at::empty({count}, tensors[0].options());
    operation.after.push_back([=] {
        int64_t first = 0;
        for (const at::Tensor &tensor : tensors) {
            tensor.copy_(
                flat.narrow(0, first, tensor.numel()).view(tensor.sizes()));
            first += tensor.numel();
        }
    });
    return keep(operation, flat);
}

void check_one(const char *name, const std::vector<at::Tensor> &tensors)
{
    TORCH_CHECK_VALUE(tensors.size() == 1, "lockstep: ", name,
                      " was called with ", tensors.size(),
                      " tensors; pass one tensor");
}

void check_pairs(const char *name, const std::vector<at::Tensor> &inputs,
                 const std::vector<at::Tensor> &outputs)
{
    TORCH_CHECK_VALUE(inputs.size() == outputs.size(), "lockstep: ", name,
                      ": got ", inputs.size(), " input tensors and ",
                      outputs.size(),
                      " output tensors; pass the same number of both");
}

void check_types(const char *name, const at::Tensor &first,
                 const std::vector<at::Tensor> &tensors)
{
    for (const at::Tensor &tensor : tensors)
        TORCH_CHECK_TYPE(tensor.scalar_type() == first.scalar_type(),
                         "lockstep: ", name, ": the tensors have types ",
                         first.scalar_type(), " and ", tensor.scalar_type(),
                         "; all must have the same type");
}

void check_count(const char *name, const char *which, const at::Tensor &tensor,
                 int64_t count)
{
    TORCH_CHECK_VALUE(tensor.numel() == count, "lockstep: ", name, ": ", which,
                      " has ", tensor.numel(), " elements; it must have ",
                      count, " elements");
}

std::vector<size_t> counts_of(const std::vector<at::Tensor> &tensors)
{
    std::vector<size_t> counts;
    counts.reserve(tensors.size());
    for (const at::Tensor &tensor : tensors)
        counts.push_back(moved_count(tensor, tensor.numel()));
    return counts;
}

bool all_equal(const std::vector<size_t> &counts)
{
    return std::all_of(counts.begin(), counts.end(),
                       [&](size_t count) { return count == counts[0]; });
}

} // namespace lockstep

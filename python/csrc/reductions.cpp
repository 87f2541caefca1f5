/*
 * All-reduce, reduce and reduce-scatter.
 */
#include "backend.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include "parts.h"

namespace lockstep
{
namespace
{

/* recv gets the reduction of send over all ranks, on all of them. */
Step reduce_all(const at::Tensor &send, const at::Tensor &recv,
                const c10d::ReduceOp &op)
{
    const Elements elements = reduced(recv, op);
    if (op == c10d::ReduceOp::PREMUL_SUM) {
        const double factor = premultiplier(op);
        return [=](ls_group *group, Work &work) {
            return ls_iall_reduce_premul(
                group, send.const_data_ptr(), recv.data_ptr(), elements.count,
                elements.dtype, factor, work.request());
        };
    }
    const ls_reduce_op how = reduction(op);
    return [=](ls_group *group, Work &work) {
        return ls_iall_reduce(group, send.const_data_ptr(), recv.data_ptr(),
                              elements.count, elements.dtype, how,
                              work.request());
    };
}

Step reduce_in_place(Operation &operation, const char *name,
                     const at::Tensor &tensor, const c10d::ReduceOp &op)
{
    const at::Tensor data = updated(operation, name, tensor);
    return reduce_all(data, data, op);
}

/* recv gets the reduction over ranks of its block of send. */
Step scatter_sums(const at::Tensor &send, const at::Tensor &recv,
                  const c10d::ReduceOp &op)
{
    const Elements elements = reduced(recv, op);
    if (op == c10d::ReduceOp::PREMUL_SUM) {
        const double factor = premultiplier(op);
        return [=](ls_group *group, Work &work) {
            return ls_ireduce_scatter_premul(
                group, send.const_data_ptr(), recv.data_ptr(), elements.count,
                elements.dtype, factor, work.request());
        };
    }
    const ls_reduce_op how = reduction(op);
    return [=](ls_group *group, Work &work) {
        return ls_ireduce_scatter(group, send.const_data_ptr(), recv.data_ptr(),
                                  elements.count, elements.dtype, how,
                                  work.request());
    };
}

/* Blocks of different sizes; counts are in elements of the library. */
Step scatter_sums_of(const at::Tensor &send, const at::Tensor &recv,
                     const std::vector<size_t> &counts,
                     const c10d::ReduceOp &op)
{
    const ls_dtype dtype = reduced(recv, op).dtype;
    const ls_reduce_op how = reduction(op);
    return [=](ls_group *group, Work &work) {
        return ls_ireduce_scatterv(group, send.const_data_ptr(),
                                   recv.data_ptr(), counts.data(), dtype, how,
                                   work.request());
    };
}

/*
 * Replaces the data to be sent by its products, for a plain sum: blocks of
 * different sizes have no call that multiplies. Products and sums of half types
 * are f32, and rounded once.
 */
void multiply(Operation &operation, at::Tensor &send, at::Tensor &recv,
              const c10d::ReduceOp &op)
{
    const at::AutoDispatchBelowADInplaceOrView no_grad;
    const at::ScalarType type = send.scalar_type();
    TORCH_CHECK_TYPE(
        at::isFloatingType(type) || at::isComplexType(type),
        "lockstep: the reduction PREMUL_SUM does not support type ", type,
        "; use a floating or complex type");
    const bool half = at::isReducedFloatingType(type);
    send = (half ? send.to(at::kFloat) : send).mul(premultiplier(op));
    operation.kept.push_back(send);
    if (!half)
        return;
    const at::Tensor sums = at::empty(recv.sizes(), send.options());
    operation.kept.push_back(sums);
    operation.after.insert(operation.after.begin(),
                           [recv, sums] { recv.copy_(sums); });
    recv = sums;
}

} // namespace

WorkPtr Backend::allreduce(Tensors &tensors,
                           const c10d::AllreduceOptions &options)
{
    check_one("allreduce", tensors);
    if (tensors[0].layout() == at::kSparse)
        return allreduce_sparse(tensors, options);
    Operation operation = begin(c10d::OpType::ALLREDUCE, "all_reduce", options);
    operation.result = tensors;
    operation.steps = {
        reduce_in_place(operation, "allreduce", tensors[0], options.reduceOp)};
    return launch(std::move(operation));
}

WorkPtr
Backend::allreduce_coalesced(Tensors &tensors,
                             const c10d::AllreduceCoalescedOptions &options)
{
    Operation operation =
        begin(c10d::OpType::ALLREDUCE_COALESCED, "all_reduce", options);
    std::vector<Step> steps;
    for (const at::Tensor &tensor : tensors)
        steps.push_back(reduce_in_place(operation, "allreduce_coalesced",
                                        tensor, options.reduceOp));
    operation.result = tensors;
    operation.steps = {together(std::move(steps))};
    return launch(std::move(operation));
}

WorkPtr Backend::reduce(Tensors &tensors, const c10d::ReduceOptions &options)
{
    check_one("reduce", tensors);
    const int root = check_root("reduce", options.rootRank);
    Operation operation = begin(c10d::OpType::REDUCE, "reduce", options);
    const bool receives = rank_ == root;
    const at::Tensor data = receives
                                ? updated(operation, "reduce", tensors[0])
                                : read_from(operation, "reduce", tensors[0]);
    operation.result = tensors;
    if (options.reduceOp == c10d::ReduceOp::PREMUL_SUM) {
        operation.kept.push_back(receives ? data : at::empty_like(data));
        operation.steps = {
            reduce_all(data, operation.kept.back(), options.reduceOp)};
        return launch(std::move(operation));
    }
    const Elements elements = reduced(data, options.reduceOp);
    const ls_reduce_op how = reduction(options.reduceOp);
    operation.steps = {[=](ls_group *group, Work &work) {
        return ls_ireduce(group, data.const_data_ptr(),
                          receives ? data.data_ptr() : nullptr, elements.count,
                          elements.dtype, how, root, work.request());
    }};
    return launch(std::move(operation));
}

WorkPtr Backend::_reduce_scatter_base(at::Tensor &output, at::Tensor &input,
                                      const c10d::ReduceScatterOptions &options)
{
    check_types("reduce_scatter", output, {input});
    check_count("reduce_scatter", "the input", input, output.numel() * size_);
    Operation operation =
        begin(c10d::OpType::_REDUCE_SCATTER_BASE, "reduce_scatter", options);
    const at::Tensor send = read_from(operation, "reduce_scatter", input);
    const at::Tensor recv = written_to(operation, "reduce_scatter", output);
    operation.result = {output};
    operation.steps = {scatter_sums(send, recv, options.reduceOp)};
    return launch(std::move(operation));
}

WorkPtr Backend::reduce_scatter_tensor_coalesced(
    Tensors &outputs, Tensors &inputs,
    const c10d::ReduceScatterOptions &options)
{
    check_pairs("reduce_scatter_tensor_coalesced", inputs, outputs);
    Operation operation =
        begin(c10d::OpType::_REDUCE_SCATTER_BASE, "reduce_scatter", options);
    std::vector<Step> steps;
    for (size_t i = 0; i < inputs.size(); i++) {
        check_types("reduce_scatter", outputs[i], {inputs[i]});
        check_count("reduce_scatter", "an input", inputs[i],
                    outputs[i].numel() * size_);
        const at::Tensor send =
            read_from(operation, "reduce_scatter", inputs[i]);
        const at::Tensor recv =
            written_to(operation, "reduce_scatter", outputs[i]);
        steps.push_back(scatter_sums(send, recv, options.reduceOp));
    }
    operation.result = outputs;
    operation.steps = {together(std::move(steps))};
    return launch(std::move(operation));
}

/* Blocks may have different sizes. */
WorkPtr Backend::reduce_scatter(Tensors &outputs, TensorLists &inputs,
                                const c10d::ReduceScatterOptions &options)
{
    check_one("reduce_scatter", outputs);
    check_lists("reduce_scatter", inputs.size(),
                inputs.empty() ? 0 : inputs[0].size());
    check_types("reduce_scatter", outputs[0], inputs[0]);
    check_count("reduce_scatter", "the output", outputs[0],
                inputs[0][static_cast<size_t>(rank_)].numel());
    Operation operation =
        begin(c10d::OpType::REDUCE_SCATTER, "reduce_scatter", options);
    at::Tensor send = read_from(operation, "reduce_scatter", inputs[0]);
    at::Tensor recv = written_to(operation, "reduce_scatter", outputs[0]);
    c10d::ReduceOp op = options.reduceOp;
    std::vector<size_t> counts;
    for (const at::Tensor &tensor : inputs[0])
        counts.push_back(reduced(tensor, op).count);
    const bool even = all_equal(counts);
    if (!even && op == c10d::ReduceOp::PREMUL_SUM) {
        multiply(operation, send, recv, op);
        op = c10d::ReduceOp::SUM;
    }
    operation.result = outputs;
    operation.steps = {even ? scatter_sums(send, recv, op)
                            : scatter_sums_of(send, recv, counts, op)};
    return launch(std::move(operation));
}

} // namespace lockstep

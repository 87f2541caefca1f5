/* Operations that move data between all ranks, or between one and all. */
#include "backend.h"
#include "parts.h"

#include <numeric>

namespace lockstep
{
namespace
{

/* Blocks of the same size, or of these. */
Step all_gather(const at::Tensor &send, const at::Tensor &recv,
                const std::vector<size_t> &counts)
{
    const Elements elements = moved(send);
    return [=](ls_group *group, Work &work) {
        if (counts.empty() || all_equal(counts))
            return ls_iall_gather(group, send.const_data_ptr(), recv.data_ptr(),
                                  elements.count, elements.dtype,
                                  work.request());
        return ls_iall_gatherv(group, send.const_data_ptr(), elements.count,
                               recv.data_ptr(), counts.data(), elements.dtype,
                               work.request());
    };
}

Step all_to_all(const at::Tensor &send, const std::vector<size_t> &send_counts,
                const at::Tensor &recv, const std::vector<size_t> &recv_counts,
                bool equal)
{
    const ls_dtype dtype = moved(send).dtype;
    return [=](ls_group *group, Work &work) {
        if (equal)
            return ls_iall_to_all(group, send.const_data_ptr(), recv.data_ptr(),
                                  send_counts[0], dtype, work.request());
        return ls_iall_to_allv(group, send.const_data_ptr(), send_counts.data(),
                               recv.data_ptr(), recv_counts.data(), dtype,
                               work.request());
    };
}

/* In elements of the library. No splits: equal parts of the first axis. */
std::vector<size_t> counts_of_splits(const char *which,
                                     const at::Tensor &tensor,
                                     const std::vector<int64_t> &splits,
                                     int size)
{
    const int64_t rows = tensor.dim() > 0 ? tensor.size(0) : tensor.numel();
    const int64_t row = rows > 0 ? tensor.numel() / rows : 0;
    if (splits.empty()) {
        TORCH_CHECK_VALUE(rows % size == 0,
                          "lockstep: alltoall: cannot divide the ", rows,
                          " rows of the ", which, " equally among ", size,
                          " ranks (Tensor's dim 0 does "
                          "not divide equally across group size)");
        return std::vector<size_t>(static_cast<size_t>(size),
                                   moved_count(tensor, rows / size * row));
    }
    TORCH_CHECK_VALUE(
        splits.size() == static_cast<size_t>(size), "lockstep: alltoall: got ",
        splits.size(), " split sizes for the ", which, "; pass ", size,
        ", one per rank (Number of tensor splits not equal to group size)");
    TORCH_CHECK_VALUE(
        std::accumulate(splits.begin(), splits.end(), int64_t{0}) == rows,
        "lockstep: alltoall: the splits of the ", which, " add up to ",
        std::accumulate(splits.begin(), splits.end(), int64_t{0}),
        " rows, but the ", which, " has ", rows,
        " rows (Split sizes doesn't match total dim 0 size)");
    std::vector<size_t> counts;
    for (const int64_t split : splits) {
        TORCH_CHECK_VALUE(split >= 0, "lockstep: alltoall: the splits of the ",
                          which, " are ", splits,
                          "; each must be 0 or more (Split sizes must be "
                          "non-negative)");
        counts.push_back(moved_count(tensor, split * row));
    }
    return counts;
}

} // namespace

/* ---- all-gather ---------------------------------------------------------- */

WorkPtr Backend::allgather(TensorLists &outputs, Tensors &inputs,
                           const c10d::AllgatherOptions &options)
{
    check_one("allgather", inputs);
    check_lists("allgather", outputs.size(),
                outputs.empty() ? 0 : outputs[0].size());
    check_types("allgather", inputs[0], outputs[0]);
    check_count("allgather", "the input", inputs[0],
                outputs[0][static_cast<size_t>(rank_)].numel());
    Operation operation = begin(c10d::OpType::ALLGATHER, "all_gather", options);
    const at::Tensor send = read_from(operation, "allgather", inputs[0]);
    const at::Tensor recv = written_to(operation, "allgather", outputs[0]);
    operation.result = outputs[0];
    operation.steps = {all_gather(send, recv, counts_of(outputs[0]))};
    return launch(std::move(operation));
}

WorkPtr Backend::_allgather_base(at::Tensor &output, at::Tensor &input,
                                 const c10d::AllgatherOptions &options)
{
    Tensors outputs{output};
    Tensors inputs{input};
    return allgather_into_tensor_coalesced(outputs, inputs, options);
}

WorkPtr
Backend::allgather_into_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                         const c10d::AllgatherOptions &options)
{
    check_pairs("allgather", inputs, outputs);
    Operation operation =
        begin(c10d::OpType::_ALLGATHER_BASE, "all_gather", options);
    std::vector<Step> steps;
    for (size_t i = 0; i < inputs.size(); i++) {
        check_types("allgather", inputs[i], {outputs[i]});
        check_count("allgather", "the output", outputs[i],
                    inputs[i].numel() * size_);
        const at::Tensor send = read_from(operation, "allgather", inputs[i]);
        const at::Tensor recv = written_to(operation, "allgather", outputs[i]);
        steps.push_back(all_gather(send, recv, {}));
    }
    operation.result = outputs;
    operation.steps = {together(std::move(steps))};
    return launch(std::move(operation));
}

/* outputs[r][i] is inputs[i] of rank r. */
WorkPtr Backend::allgather_coalesced(TensorLists &outputs, Tensors &inputs,
                                     const c10d::AllgatherOptions &options)
{
    TORCH_CHECK_VALUE(outputs.size() == static_cast<size_t>(size_),
                      "lockstep: allgather_coalesced: got ", outputs.size(),
                      " output lists; pass ", size_, ", one per rank");
    Operation operation =
        begin(c10d::OpType::ALLGATHER_COALESCED, "all_gather", options);
    std::vector<Step> steps;
    for (size_t i = 0; i < inputs.size(); i++) {
        Tensors theirs;
        for (const Tensors &list : outputs) {
            TORCH_CHECK_VALUE(
                list.size() == inputs.size(),
                "lockstep: allgather_coalesced: got ", inputs.size(),
                " input tensors and an output list of ", list.size(),
                " tensors; each list must contain one tensor per input");
            theirs.push_back(list[i]);
        }
        check_types("allgather", inputs[i], theirs);
        check_count("allgather", "an input", inputs[i],
                    theirs[static_cast<size_t>(rank_)].numel());
        const at::Tensor send = read_from(operation, "allgather", inputs[i]);
        const at::Tensor recv = written_to(operation, "allgather", theirs);
        operation.result.insert(operation.result.end(), theirs.begin(),
                                theirs.end());
        steps.push_back(all_gather(send, recv, counts_of(theirs)));
    }
    operation.steps = {together(std::move(steps))};
    return launch(std::move(operation));
}

/* ---- between one and all ------------------------------------------------- */

WorkPtr Backend::gather(TensorLists &outputs, Tensors &inputs,
                        const c10d::GatherOptions &options)
{
    check_one("gather", inputs);
    const int root = check_root("gather", options.rootRank);
    Operation operation = begin(c10d::OpType::GATHER, "gather", options);
    const at::Tensor send = read_from(operation, "gather", inputs[0]);
    at::Tensor recv;
    if (rank_ == root) {
        check_lists("gather", outputs.size(),
                    outputs.empty() ? 0 : outputs[0].size());
        check_types("gather", inputs[0], outputs[0]);
        for (const at::Tensor &tensor : outputs[0])
            check_count("gather", "an output", tensor, inputs[0].numel());
        recv = written_to(operation, "gather", outputs[0]);
        operation.result = outputs[0];
    } else {
        TORCH_CHECK_VALUE(
            outputs.empty(), "lockstep: gather: only the root, rank ", root,
            ", may pass output tensors (requires empty output on non-root)");
    }
    const Elements elements = moved(send);
    operation.steps = {[=](ls_group *group, Work &work) {
        return ls_igather(group, send.const_data_ptr(),
                          recv.defined() ? recv.data_ptr() : nullptr,
                          elements.count, elements.dtype, root, work.request());
    }};
    return launch(std::move(operation));
}

WorkPtr Backend::scatter(Tensors &outputs, TensorLists &inputs,
                         const c10d::ScatterOptions &options)
{
    check_one("scatter", outputs);
    const int root = check_root("scatter", options.rootRank);
    Operation operation = begin(c10d::OpType::SCATTER, "scatter", options);
    const at::Tensor recv = written_to(operation, "scatter", outputs[0]);
    at::Tensor send;
    if (rank_ == root) {
        check_lists("scatter", inputs.size(),
                    inputs.empty() ? 0 : inputs[0].size());
        check_types("scatter", outputs[0], inputs[0]);
        for (const at::Tensor &tensor : inputs[0])
            check_count("scatter", "an input", tensor, outputs[0].numel());
        send = read_from(operation, "scatter", inputs[0]);
    } else {
        TORCH_CHECK_VALUE(
            inputs.empty(), "lockstep: scatter: only the root, rank ", root,
            ", may pass input tensors (requires empty input on non-root)");
    }
    const Elements elements = moved(recv);
    operation.result = outputs;
    operation.steps = {[=](ls_group *group, Work &work) {
        return ls_iscatter(group,
                           send.defined() ? send.const_data_ptr() : nullptr,
                           recv.data_ptr(), elements.count, elements.dtype,
                           root, work.request());
    }};
    return launch(std::move(operation));
}

/* ---- all-to-all ---------------------------------------------------------- */

WorkPtr Backend::alltoall(Tensors &outputs, Tensors &inputs,
                          const c10d::AllToAllOptions &options)
{
    check_lists("alltoall", 1, outputs.size());
    check_lists("alltoall", 1, inputs.size());
    check_types("alltoall", inputs[0], inputs);
    check_types("alltoall", inputs[0], outputs);
    Operation operation = begin(c10d::OpType::ALLTOALL, "all_to_all", options);
    const at::Tensor send = read_from(operation, "alltoall", inputs);
    const at::Tensor recv = written_to(operation, "alltoall", outputs);
    operation.result = outputs;
    operation.steps = {
        all_to_all(send, counts_of(inputs), recv, counts_of(outputs), false)};
    return launch(std::move(operation));
}

/* No splits anywhere: all ranks know that the blocks are equal. */
WorkPtr Backend::alltoall_base(at::Tensor &output, at::Tensor &input,
                               std::vector<int64_t> &output_splits,
                               std::vector<int64_t> &input_splits,
                               const c10d::AllToAllOptions &options)
{
    check_types("alltoall", input, {output});
    const bool equal = output_splits.empty() && input_splits.empty();
    if (equal)
        check_count("alltoall", "the output", output, input.numel());
    Operation operation =
        begin(c10d::OpType::ALLTOALL_BASE, "all_to_all", options);
    const std::vector<size_t> sent =
        counts_of_splits("input", input, input_splits, size_);
    const std::vector<size_t> received =
        counts_of_splits("output", output, output_splits, size_);
    const at::Tensor send = read_from(operation, "alltoall", input);
    const at::Tensor recv = written_to(operation, "alltoall", output);
    operation.result = {output};
    operation.steps = {all_to_all(send, sent, recv, received, equal)};
    return launch(std::move(operation));
}

} // namespace lockstep

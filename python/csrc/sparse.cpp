/*
 * All-reduce of sparse tensors: ranks gather the entries of all ranks, and each
 * adds them up in rank order.
 */
#include "backend.h"
#include "parts.h"

namespace lockstep
{
namespace
{

/* Dimensions whose lengths ranks compare one by one. */
constexpr int64_t MOST = 8;

/* Of all ranks: how many entries each has, and these, one behind the other. */
struct Gathered {
    at::Tensor shape; /* of this rank, see shape_of */
    at::Tensor all_shapes;
    at::Tensor all_entries;     /* (size) */
    at::Tensor indices, values; /* of this rank: (entries, dimensions), ... */
    at::Tensor all_indices, all_values;
};

/*
 * The number of entries, and the shape on which ranks must agree: the number of
 * dimensions with indices, and all lengths. The lengths of dimensions from MOST
 * on are combined into one number in the last place.
 */
at::Tensor shape_of(const at::Tensor &tensor)
{
    at::Tensor shape = at::zeros({2 + MOST}, at::kLong);
    auto *const places = shape.mutable_data_ptr<int64_t>();
    places[0] = tensor._nnz();
    places[1] = tensor.sparse_dim();
    for (int64_t i = 0; i < tensor.dim(); i++) {
        int64_t &place = places[2 + std::min(i, MOST - 1)];
        place = place * 31 + tensor.size(i) + 1;
    }
    return shape;
}

/* Otherwise entries of one rank may be outside of another rank's tensor. */
void check_shapes(const at::Tensor &shapes, int rank, at::IntArrayRef mine)
{
    for (int64_t r = 0; r < shapes.size(0); r++)
        TORCH_CHECK_VALUE(shapes[r]
                              .narrow(0, 1, 1 + MOST)
                              .equal(shapes[rank].narrow(0, 1, 1 + MOST)),
                          "lockstep: all_reduce: the ranks passed sparse "
                          "tensors of different shapes. Rank ",
                          rank, " passed shape ", mine, ", but rank ", r,
                          " passed another shape");
}

std::vector<size_t> counts_times(const at::Tensor &entries, int64_t each)
{
    std::vector<size_t> counts;
    for (int64_t i = 0; i < entries.numel(); i++)
        counts.push_back(
            static_cast<size_t>(entries.const_data_ptr<int64_t>()[i] * each));
    return counts;
}

ls_status collect(ls_group *group, Work &work, const at::Tensor &mine,
                  at::Tensor &all, const at::Tensor &entries)
{
    auto sizes = mine.sizes().vec();
    sizes[0] = entries.sum().item<int64_t>();
    all = at::empty(sizes, mine.options());
    int64_t each = 1;
    for (size_t i = 1; i < sizes.size(); i++)
        each *= sizes[i];
    const std::vector<size_t> counts =
        counts_times(entries, static_cast<int64_t>(moved_count(mine, each)));
    const Elements elements = moved(mine);
    return ls_iall_gatherv(group, mine.const_data_ptr(), elements.count,
                           all.data_ptr(), counts.data(), elements.dtype,
                           work.request());
}

at::Tensor sum(const Gathered &g, at::IntArrayRef sizes)
{
    return at::_sparse_coo_tensor_unsafe(g.all_indices.t(), g.all_values, sizes)
        .coalesce();
}

} // namespace

WorkPtr Backend::allreduce_sparse(Tensors &tensors,
                                  const c10d::AllreduceOptions &options)
{
    check_one("allreduce", tensors);
    const at::Tensor tensor = tensors[0];
    TORCH_CHECK_VALUE(tensor.layout() == at::kSparse &&
                          tensor.device().is_cpu(),
                      "lockstep: allreduce_sparse: the tensor has layout ",
                      tensor.layout(), " and is on device ", tensor.device(),
                      "; it must be a sparse COO tensor on the CPU");
    const bool average = options.reduceOp == c10d::ReduceOp::AVG;
    TORCH_CHECK_NOT_IMPLEMENTED(
        average || options.reduceOp == c10d::ReduceOp::SUM,
        "lockstep: allreduce: with sparse tensors, use sum or average; other "
        "reductions are not supported");
    const at::AutoDispatchBelowADInplaceOrView no_grad;
    const at::Tensor mine = tensor.coalesce();
    auto g = std::make_shared<Gathered>();
    g->shape = shape_of(mine);
    g->all_shapes = at::empty({size_, g->shape.numel()}, at::kLong);
    g->indices = mine._indices().t().contiguous();
    g->values = mine._values().contiguous();
    Operation operation =
        begin(c10d::OpType::_ALLREDUCE_SPARSE, "sparse_all_reduce", options);
    operation.result = tensors;
    operation.inputs = tensors;
    const int rank = rank_;
    operation.steps = {
        [g](ls_group *group, Work &work) {
            return ls_iall_gather(
                group, g->shape.const_data_ptr(), g->all_shapes.data_ptr(),
                static_cast<size_t>(g->shape.numel()), LS_I64, work.request());
        },
        [g, rank, tensor](ls_group *group, Work &work) {
            const at::AutoDispatchBelowADInplaceOrView unrecorded;
            check_shapes(g->all_shapes, rank, tensor.sizes());
            g->all_entries = g->all_shapes.select(1, 0).contiguous();
            const ls_status status = collect(group, work, g->indices,
                                             g->all_indices, g->all_entries);
            if (status != LS_OK)
                return status;
            return collect(group, work, g->values, g->all_values,
                           g->all_entries);
        }};
    const int size = size_;
    operation.after = {[g, tensor, average, size] {
        at::Tensor total = sum(*g, tensor.sizes());
        if (average)
            total._values().div_(size);
        tensor.copy_(total);
    }};
    return launch(std::move(operation));
}

} // namespace lockstep

/* Types that can be sent, types that can be computed with, and reductions. */
#include "elements.h"

#include <optional>
#include <string>

namespace lockstep
{
namespace
{

std::optional<ls_dtype> computed_type(at::ScalarType type)
{
    switch (type) {
    case at::kFloat:
        return LS_F32;
    case at::kDouble:
        return LS_F64;
    case at::kHalf:
        return LS_F16;
    case at::kBFloat16:
        return LS_BF16;
    case at::kChar:
        return LS_I8;
    case at::kByte:
        return LS_U8;
    case at::kBool:
        return LS_BOOL;
    case at::kInt:
        return LS_I32;
    case at::kLong:
        return LS_I64;
    default:
        return std::nullopt;
    }
}

/* As programs in Python know it. */
std::string name_of(at::ScalarType type)
{
    return std::string(c10::getDtypeNames(type).first);
}

} // namespace

Elements moved(const at::Tensor &tensor)
{
    const auto type = computed_type(tensor.scalar_type());
    if (type)
        return {static_cast<size_t>(tensor.numel()), *type};
    return {tensor.nbytes(), LS_U8};
}

size_t moved_count(const at::Tensor &tensor, int64_t count)
{
    const bool bytes = !computed_type(tensor.scalar_type());
    return static_cast<size_t>(count) * (bytes ? tensor.element_size() : 1);
}

/* The sum of complex numbers is that of their parts. */
Elements reduced(const at::Tensor &tensor, const c10d::ReduceOp &op)
{
    const at::ScalarType type = tensor.scalar_type();
    const auto count = static_cast<size_t>(tensor.numel());
    if (at::isComplexType(type) &&
        (op == c10d::ReduceOp::SUM || op == c10d::ReduceOp::AVG ||
         op == c10d::ReduceOp::PREMUL_SUM)) {
        const auto part = computed_type(c10::toRealValueType(type));
        if (part)
            return {2 * count, *part};
    }
    const auto same = computed_type(type);
    TORCH_CHECK_TYPE(same, "lockstep: this reduction does not support type ",
                     name_of(type),
                     ". Use float32, float64, float16, bfloat16, int8, uint8, "
                     "int32, int64 or bool. Sums and averages also support "
                     "complex types");
    return {count, *same};
}

ls_reduce_op reduction(const c10d::ReduceOp &op)
{
    switch (op) {
    case c10d::ReduceOp::SUM:
        return LS_REDUCE_SUM;
    case c10d::ReduceOp::AVG:
        return LS_REDUCE_AVG;
    case c10d::ReduceOp::PRODUCT:
        return LS_REDUCE_PROD;
    case c10d::ReduceOp::MIN:
        return LS_REDUCE_MIN;
    case c10d::ReduceOp::MAX:
        return LS_REDUCE_MAX;
    case c10d::ReduceOp::BAND:
        return LS_REDUCE_BAND;
    case c10d::ReduceOp::BOR:
        return LS_REDUCE_BOR;
    case c10d::ReduceOp::BXOR:
        return LS_REDUCE_BXOR;
    default:
        TORCH_CHECK_NOT_IMPLEMENTED(
            false, "lockstep: this version does not support reduction number ",
            static_cast<int>(op.op_), " of torch.distributed.ReduceOp");
    }
}

double premultiplier(const c10d::ReduceOp &op)
{
    const auto *found = dynamic_cast<const c10d::NCCLPreMulSumSupplement *>(
        op.supplement_.get());
    TORCH_CHECK_VALUE(found != nullptr,
                      "lockstep: the reduction PREMUL_SUM was created without "
                      "a factor; create it with a factor");
    return found->tensor_factor.defined() ? found->tensor_factor.item<double>()
                                          : found->double_factor;
}

void check_dense(const char *operation, const at::Tensor &tensor)
{
    TORCH_CHECK_VALUE(
        tensor.device().is_cpu(), "lockstep: ", operation,
        ": the tensor is on device ", tensor.device(),
        "; this backend needs tensors on the CPU. Move the tensor to the CPU");
    TORCH_CHECK_VALUE(tensor.layout() == at::kStrided, "lockstep: ", operation,
                      ": the tensor has layout ", tensor.layout(),
                      "; it must be dense");
}

} // namespace lockstep

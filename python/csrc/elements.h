/*
 * Tensors and reductions of PyTorch as the library's elements and reductions.
 */
#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "lockstep/group.h"

namespace lockstep
{

/* The elements of a tensor. Types that are only sent are bytes. */
struct Elements {
    size_t count;
    ls_dtype dtype;
};

/* For operations that move data as it is. */
Elements moved(const at::Tensor &tensor);

/* Number of library elements in `count` elements of the tensor's type. */
size_t moved_count(const at::Tensor &tensor, int64_t count);

/* For reductions; throws if the library cannot compute with this type. */
Elements reduced(const at::Tensor &tensor, const c10d::ReduceOp &op);

ls_reduce_op reduction(const c10d::ReduceOp &op);

/* The factor of PREMUL_SUM. */
double premultiplier(const c10d::ReduceOp &op);

/* Throws unless it is a dense tensor on the CPU. */
void check_dense(const char *operation, const at::Tensor &tensor);

} // namespace lockstep

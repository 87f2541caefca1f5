/*
 * The tensors of an operation as the library wants them: dense memory, which is
 * the tensor's own where that is possible.
 */
#pragma once

#include <vector>

#include "elements.h"
#include "work.h"

namespace lockstep
{

/*
 * Adds to the operation the owners of the memory, and the work done afterwards.
 */

/* A dense tensor with the same values, to be read. */
at::Tensor read_from(Operation &operation, const char *name,
                     const at::Tensor &tensor);

/* A dense tensor that `tensor` gets its values from in the end. */
at::Tensor written_to(Operation &operation, const char *name,
                      const at::Tensor &tensor);

/* The same that is also read. */
at::Tensor updated(Operation &operation, const char *name,
                   const at::Tensor &tensor);

/* Several tensors, one after the other. */
at::Tensor read_from(Operation &operation, const char *name,
                     const std::vector<at::Tensor> &tensors);
at::Tensor written_to(Operation &operation, const char *name,
                      const std::vector<at::Tensor> &tensors);

/* Throws unless there is one. */
void check_one(const char *name, const std::vector<at::Tensor> &tensors);

/* Throws unless each input has an output. */
void check_pairs(const char *name, const std::vector<at::Tensor> &inputs,
                 const std::vector<at::Tensor> &outputs);

/* Throws unless all have the type of the first. */
void check_types(const char *name, const at::Tensor &first,
                 const std::vector<at::Tensor> &tensors);

/* Throws unless `tensor` has `count` elements. */
void check_count(const char *name, const char *which, const at::Tensor &tensor,
                 int64_t count);

/* Of each tensor, in elements of the library. */
std::vector<size_t> counts_of(const std::vector<at::Tensor> &tensors);
bool all_equal(const std::vector<size_t> &counts);

} // namespace lockstep

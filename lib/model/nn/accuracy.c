/* How often a classifier is right. */
#include <inttypes.h>

#include "array/compute/losses.h"
#include "base/error.h"
#include "lockstep/nn.h"
#include "model/tensor/tensor.h"

static ls_status check_types(const ls_tensor *logits, const ls_tensor *labels)
{
    const ls_dtype dtype = ls_tensor_dtype(logits);
    if (dtype != LS_F32 && dtype != LS_BF16 && dtype != LS_F16)
        return lsi_fail(
            LS_ERR_DTYPE,
            "ls_count_correct: logits are %s; they must be f32, bf16 or f16",
            ls_dtype_name(ls_tensor_dtype(logits)));
    if (ls_tensor_dtype(labels) != LS_I64)
        return lsi_fail(LS_ERR_DTYPE,
                        "ls_count_correct: labels are %s; they must be i64",
                        ls_dtype_name(ls_tensor_dtype(labels)));
    return LS_OK;
}

static ls_status check_shapes(const ls_tensor *logits, const ls_tensor *labels)
{
    if (ls_tensor_ndim(logits) != 2 || ls_tensor_ndim(labels) != 1)
        return lsi_fail(LS_ERR_SHAPE,
                        "ls_count_correct: logits have %d dimensions and "
                        "labels have %d; they must have 2 and 1",
                        ls_tensor_ndim(logits), ls_tensor_ndim(labels));
    const int64_t rows = ls_tensor_shape(logits)[0];
    if (ls_tensor_shape(labels)[0] != rows)
        return lsi_fail(LS_ERR_SHAPE,
                        "ls_count_correct: logits have %" PRId64
                        " rows, but labels have %" PRId64,
                        rows, ls_tensor_shape(labels)[0]);
    return LS_OK;
}

ls_status ls_count_correct(const ls_tensor *logits, const ls_tensor *labels,
                           int64_t *correct)
{
    LS_NEED_TENSOR(logits);
    LS_NEED_TENSOR(labels);
    LS_NEED(correct);
    LS_TRY(check_types(logits, labels));
    LS_TRY(check_shapes(logits, labels));
    LS_TRY(lsi_tensor_check_memory(logits, __func__));
    LS_TRY(lsi_tensor_check_memory(labels, __func__));
    const lsi_accuracy accuracy = {.x = lsi_tensor_raw(logits),
                                   .dtype = ls_tensor_dtype(logits),
                                   .row_stride = ls_tensor_strides(logits)[0],
                                   .col_stride = ls_tensor_strides(logits)[1],
                                   .labels = lsi_tensor_raw(labels),
                                   .label_stride = ls_tensor_strides(labels)[0],
                                   .rows = ls_tensor_shape(logits)[0],
                                   .cols = ls_tensor_shape(logits)[1]};
    return lsi_accuracy_count(&accuracy, correct);
}

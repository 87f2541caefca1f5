/* How often a classifier is right. */
#include <inttypes.h>

#include "base/error.h"
#include "base/half.h"
#include "lockstep/nn.h"
#include "tensor/tensor.h"

static ls_status check_types(const ls_tensor *logits, const ls_tensor *labels)
{
    const ls_dtype dtype = ls_tensor_dtype(logits);
    if (dtype != LS_F32 && dtype != LS_BF16 && dtype != LS_F16)
        return lsi_fail(LS_ERR_DTYPE,
                        "ls_count_correct: logits are %s, must be f32, bf16 or "
                        "f16",
                        ls_dtype_name(ls_tensor_dtype(logits)));
    if (ls_tensor_dtype(labels) != LS_I64)
        return lsi_fail(LS_ERR_DTYPE,
                        "ls_count_correct: labels are %s, must be i64",
                        ls_dtype_name(ls_tensor_dtype(labels)));
    return LS_OK;
}

static ls_status check_shapes(const ls_tensor *logits, const ls_tensor *labels)
{
    if (ls_tensor_ndim(logits) != 2 || ls_tensor_ndim(labels) != 1)
        return lsi_fail(LS_ERR_SHAPE,
                        "ls_count_correct: logits have %d dimensions and "
                        "labels %d, must have 2 and 1",
                        ls_tensor_ndim(logits), ls_tensor_ndim(labels));
    const int64_t rows = ls_tensor_shape(logits)[0];
    if (ls_tensor_shape(labels)[0] != rows)
        return lsi_fail(LS_ERR_SHAPE,
                        "ls_count_correct: %" PRId64 " rows of logits but "
                        "%" PRId64 " labels",
                        rows, ls_tensor_shape(labels)[0]);
    return LS_OK;
}

static float element(const ls_tensor *logits, int64_t row, int64_t col)
{
    const int64_t *strides = ls_tensor_strides(logits);
    const int64_t at = row * strides[0] + col * strides[1];
    const void *x = lsi_tensor_raw(logits);
    switch (ls_tensor_dtype(logits)) {
    case LS_BF16:
        return lsi_bf16_to_f32(((const uint16_t *)x)[at]);
    case LS_F16:
        return lsi_f16_to_f32(((const uint16_t *)x)[at]);
    default:
        return ((const float *)x)[at];
    }
}

/* The first of the largest is at `label`. Never so if it or another is NaN. */
static bool is_correct(const ls_tensor *logits, int64_t row, int64_t label)
{
    const int64_t cols = ls_tensor_shape(logits)[1];
    const float value = element(logits, row, label);
    for (int64_t c = 0; c < cols; c++) {
        const float other = element(logits, row, c);
        if (c < label ? !(other < value) : !(other <= value))
            return false;
    }
    return true;
}

ls_status ls_count_correct(const ls_tensor *logits, const ls_tensor *labels,
                           int64_t *correct)
{
    LS_NEED_TENSOR(logits);
    LS_NEED_TENSOR(labels);
    LS_NEED(correct);
    LS_TRY(check_types(logits, labels));
    LS_TRY(check_shapes(logits, labels));
    const int64_t rows = ls_tensor_shape(logits)[0];
    const int64_t cols = ls_tensor_shape(logits)[1];
    const int64_t *y = lsi_tensor_raw(labels);
    int64_t count = 0;
    for (int64_t r = 0; r < rows; r++) {
        const int64_t label = y[r * ls_tensor_strides(labels)[0]];
        if (label < 0 || label >= cols)
            return lsi_fail(LS_ERR_ARGUMENT,
                            "ls_count_correct: label %" PRId64 " of row "
                            "%" PRId64 " is not in 0..%" PRId64,
                            label, r, cols - 1);
        count += is_correct(logits, r, label);
    }
    *correct = count;
    return LS_OK;
}

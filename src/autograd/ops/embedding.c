/*
 * y (..., D) = the rows of weight (V, D) that indices i64 (...) name.
 *
 *     dweight[v] = sum of dy over the places whose index is v
 *
 * Backward adds in the order of the places. Threads divide the columns, so
 * that no two write the same element and none changes that order.
 */
#include <string.h>

#include "autograd/ops/ops.h"
#include "autograd/span.h"
#include "base/error.h"
#include "base/threads.h"
#include "kernels/kernels.h"

enum { WEIGHT, INDICES };

typedef struct embedding_job {
    float *to;
    const float *from;
    const int64_t *indices;
    size_t n, cols; /* indices, columns of a row */
} embedding_job;

static void gather(void *context, size_t begin, size_t end)
{
    const embedding_job *j = context;
    for (size_t i = begin; i < end; i++)
        memcpy(j->to + i * j->cols, j->from + (size_t)j->indices[i] * j->cols,
               j->cols * sizeof(float));
}

/* Columns begin..end-1. */
static void scatter(void *context, size_t begin, size_t end)
{
    const embedding_job *j = context;
    const lsi_kernels *k = lsi_kernels_get();
    for (size_t i = 0; i < j->n; i++) {
        float *to = j->to + (size_t)j->indices[i] * j->cols + begin;
        k->add(to, to, j->from + i * j->cols + begin, end - begin);
    }
}

static ls_status embedding_backward(ls_tape *tape, ls_node *node)
{
    const ls_tensor *indices = ls_node_saved(node, 0);
    const ls_tensor *dy = ls_node_grad_output(tape, node, 0);
    bool accumulate = false;
    const ls_tensor *dw = ls_node_grad_input(tape, node, WEIGHT, &accumulate);
    if (dw == NULL || dy == NULL)
        return ls_tape_status(tape);
    embedding_job j = {.to = lsi_op_floats(dw),
                       .from = lsi_op_floats(dy),
                       .indices = lsi_tensor_raw(indices),
                       .n = (size_t)indices->count,
                       .cols = (size_t)dw->shape[1]};
    if (!accumulate)
        lsi_span_fill(j.to, 0.0F, (size_t)dw->count);
    lsi_parallel_for(j.cols, 64, scatter, &j);
    return LS_OK;
}

const ls_function lsi_op_embedding = {"embedding", embedding_backward, 0};

static bool check_indices(ls_tape *tape, const ls_tensor *indices,
                          int64_t vocabulary)
{
    const int64_t *index = lsi_tensor_raw(indices);
    for (int64_t i = 0; i < indices->count; i++) {
        if (index[i] >= 0 && index[i] < vocabulary)
            continue;
        ls_tape_fail(tape, LS_ERR_ARGUMENT,
                     "embedding: index %lld is %lld; it must be at least 0 "
                     "and below %lld",
                     (long long)i, (long long)index[i], (long long)vocabulary);
        return false;
    }
    return true;
}

static bool check(ls_tape *tape, const ls_tensor *weight,
                  const ls_tensor *indices)
{
    if (!lsi_op_check_dtype(tape, &lsi_op_embedding, weight, LS_F32) ||
        !lsi_op_check_dtype(tape, &lsi_op_embedding, indices, LS_I64) ||
        !lsi_op_check_ndim(tape, &lsi_op_embedding, weight, 2, "(V, D)"))
        return false;
    if (indices->ndim < LS_MAX_DIMS)
        return true;
    ls_tape_fail(tape, LS_ERR_SHAPE,
                 "embedding: the indices %s have no room for another "
                 "dimension",
                 lsi_shape_of(indices).text);
    return false;
}

ls_tensor *ls_embedding(ls_tape *tape, ls_tensor *weight, ls_tensor *indices)
{
    ls_tensor *const in[] = {weight, indices};
    int64_t shape[LS_MAX_DIMS];
    if (!lsi_op_begin(tape, &lsi_op_embedding, in, 2) ||
        !check(tape, weight, indices))
        return NULL;
    const ls_tensor *rows = lsi_op_plain(tape, weight);
    ls_tensor *const saved[] = {lsi_op_plain(tape, indices)};
    memcpy(shape, indices->shape, (size_t)indices->ndim * sizeof shape[0]);
    shape[indices->ndim] = weight->shape[1];
    ls_tensor *y = ls_tape_output(tape, LS_F32, indices->ndim + 1, shape);
    if (y == NULL || !check_indices(tape, saved[0], weight->shape[0]))
        return NULL;
    embedding_job j = {.to = lsi_op_floats(y),
                       .from = lsi_op_floats(rows),
                       .indices = lsi_tensor_raw(saved[0]),
                       .cols = (size_t)weight->shape[1]};
    lsi_parallel_for((size_t)indices->count, 16, gather, &j);
    return ls_tape_record(tape, &lsi_op_embedding, NULL, &weight, 1, &y, 1,
                          saved, 1);
}

/* Code that the tests of operations that change shapes share. */
#ifndef TESTS_AUTOGRAD_SHAPES_H
#define TESTS_AUTOGRAD_SHAPES_H

#include "array/compute/threads.h"
#include "model/autograd/ops/ops.h"

#include "mixed.h"

static uint32_t drawn = 1;

static inline int64_t draw(int64_t end)
{
    drawn = drawn * 1664525U + 1013904223U;
    return (int64_t)(drawn >> 16) % end;
}

static inline void assert_fails(const ls_tensor *result, ls_status status,
                                const char *part)
{
    assert_null(result);
    assert_error(ls_backward(tape, NULL, 1.0), status, part);
    ls_tape_reset(tape);
}

static inline float at(const ls_tensor *t, const int64_t *index)
{
    const float *data = tensor_data(t);
    int64_t offset = 0;
    for (int d = 0; d < t->ndim; d++)
        offset += index[d] * t->strides[d];
    return data[offset];
}

/* Element i of the shape, as its places in all dimensions. */
static inline void place_of(int ndim, const int64_t *shape, int64_t i,
                            int64_t *index)
{
    for (int d = ndim - 1; d >= 0; d--) {
        index[d] = i % shape[d];
        i /= shape[d];
    }
}

/* Now and then a transposed view of what was drawn. */
static inline ls_tensor *perhaps_turned(ls_tensor *t)
{
    if (t->ndim < 2 || draw(2) == 0)
        return t;
    int64_t shape[LS_MAX_DIMS];
    memcpy(shape, t->shape, sizeof shape);
    shape[t->ndim - 1] = t->shape[t->ndim - 2];
    shape[t->ndim - 2] = t->shape[t->ndim - 1];
    return ls_transpose(tape, random_tensor(t->ndim, shape, drawn), t->ndim - 1,
                        t->ndim - 2);
}

#endif

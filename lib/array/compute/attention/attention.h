/*
 * An attention problem after its shape has been checked, and the two methods.
 */
#ifndef LS_ARRAY_COMPUTE_ATTENTION_ATTENTION_H
#define LS_ARRAY_COMPUTE_ATTENTION_ATTENTION_H

#include "array/kernels/attention/flash.h"
#include "lockstep/attention.h"

typedef struct lsi_attention {
    size_t batch, heads, kv_heads, queries, keys, d;
    size_t group; /* query heads for a key head */
    bool half, causal;
    size_t first; /* key of the first query, for the causal mask of forward */
    float scale;
    const int64_t *key_counts;
    ls_attention_strides q_strides, kv_strides, o_strides;
} lsi_attention;

typedef struct lsi_attention_inputs {
    const void *q, *k, *v;
} lsi_attention_inputs;

typedef struct lsi_attention_gradients {
    void *dq, *dk, *dv;
    const void *dout, *o;
    const float *saved;
} lsi_attention_gradients;

/* Fills in the open parts of the shape, or reports its fault. */
ls_status lsi_attention_check(const ls_attention_shape *shape,
                              lsi_attention *out);

/* Rows from `row` on of one head. */
static inline lsi_flash_rows lsi_attention_rows(const lsi_attention *a,
                                                const void *base,
                                                ls_attention_strides strides,
                                                size_t batch, size_t head,
                                                size_t row)
{
    const size_t at = batch * (size_t)strides.batch +
                      head * (size_t)strides.head + row * (size_t)strides.row;
    return (lsi_flash_rows){
        (const char *)base + at * (a->half ? sizeof(uint16_t) : sizeof(float)),
        (size_t)strides.row};
}

/* Where the flash method saves the softmax of its rows: after their L. */
static inline lsi_softmax_row *
lsi_attention_softmax_rows(const lsi_attention *a, const float *saved)
{
    const size_t rows = a->batch * a->heads * a->queries;
    return (lsi_softmax_row *)(uintptr_t)(saved + rows);
}

static inline size_t lsi_attention_keys(const lsi_attention *a, size_t batch)
{
    return a->key_counts == NULL ? a->keys : (size_t)a->key_counts[batch];
}

/*
 * *out: the calling thread's workspace, at least that large and 64-byte
 * aligned, until its next call. Kept from pass to pass, for the first touch of
 * new memory takes as long as a tenth of a pass.
 */
ls_status lsi_attention_workspace(size_t bytes, const char *what, void **out);

/*
 * Floating-point operations of `products` products, each (queries, d) by (d,
 * keys); and bytes of `arrays` arrays as large as q.
 */
static inline uint64_t lsi_attention_work(const lsi_attention *a, int products)
{
    const uint64_t pairs = (uint64_t)a->queries * a->keys;
    return 2 * (uint64_t)products * a->batch * a->heads * a->d *
           (a->causal ? pairs / 2 : pairs);
}

static inline uint64_t lsi_attention_bytes(const lsi_attention *a, int arrays)
{
    return (uint64_t)arrays * a->batch * a->heads * a->queries * a->d *
           (a->half ? 2 : 4);
}

ls_status lsi_attention_flash_forward(const lsi_attention *a, void *o,
                                      float *saved, lsi_attention_inputs in);
ls_status lsi_attention_flash_backward(const lsi_attention *a,
                                       lsi_attention_inputs in,
                                       lsi_attention_gradients g);

/* Bytes that the naive backward needs in addition to those saved by forward. */
size_t lsi_naive_backward_bytes(const lsi_attention *a);
ls_status lsi_naive_forward_all(const lsi_attention *a, void *o, float *saved,
                                lsi_attention_inputs in);
ls_status lsi_naive_backward_all(const lsi_attention *a,
                                 lsi_attention_inputs in,
                                 lsi_attention_gradients g);

#endif

/*
 * Scaled dot-product attention: O = softmax(scale Q K^T) V.
 *
 * Two methods with the same results: FLASH processes tiles of keys with a
 * running softmax and saves one number per query (FlashAttention-2); NAIVE
 * stores the whole score matrix and serves as a reference. Both take f32 or
 * bf16 (products of bf16, everything else in f32), grouped-query heads, any
 * lengths and any head size.
 *
 * This header has the raw-pointer functions and the operation for the tape.
 * All are local (not collective); results do not depend on the number of
 * threads, bit for bit.
 */
#ifndef LOCKSTEP_ATTENTION_H
#define LOCKSTEP_ATTENTION_H

#include <stdbool.h>

#include "lockstep/autograd.h"
#include "lockstep/status.h"
#include "lockstep/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ls_attention_method {
    LS_ATTENTION_FLASH = 0,
    LS_ATTENTION_NAIVE = 1
} ls_attention_method;

#define LS_ATTENTION_METHOD_COUNT 2

/* "flash", "naive"; "unknown" for any other value. Static. */
LS_API const char *ls_attention_method_name(ls_attention_method method);

/* In elements; the d elements of a row always lie side by side. */
typedef struct ls_attention_strides {
    int64_t batch, head, row;
} ls_attention_strides;

/*
 * Set what you need and leave the rest zero. Q and O are (batch, heads,
 * queries, d), K and V (batch, kv_heads, keys, d); query head h reads key head
 * h / (heads / kv_heads). A gradient has the layout of its array.
 */
typedef struct ls_attention_shape {
    size_t struct_size; /* sizeof, or 0: as in 0.1 (docs/reference/abi.md) */
    int64_t batch, heads, queries, keys, d;
    int64_t kv_heads; /* divides heads; 0: heads */
    ls_dtype dtype;   /* LS_F32 or LS_BF16, of Q, K, V, O and gradients */
    /* Query i sees keys 0..i: aligned at the top left, whatever the lengths. */
    bool causal;
    double scale; /* positive; 0: 1/sqrt(d) */
    /* How many keys each batch entry has, 0..keys; NULL: all of them. */
    const int64_t *key_counts;
    /* All zero: dense in the order above. */
    ls_attention_strides q_strides, kv_strides, o_strides;
} ls_attention_shape;

/*
 * Bytes that forward saves for backward, in f32. Both methods begin with L
 * (batch, heads, queries), the logarithm of the sum of the exponentials of a
 * row of scaled scores. FLASH adds (batch, heads, queries, 2), which are more
 * precise than L. These are m, the row's largest scaled score times log2(e),
 * and 1 / sum of 2^(scaled score log2(e) - m). NAIVE adds the probabilities
 * (batch, heads, queries, keys).
 */
LS_API LS_EXPERIMENTAL LS_MUST_CHECK ls_status ls_attention_saved_bytes(
    const ls_attention_shape *shape, ls_attention_method method, size_t *bytes);

/*
 * Writes o and saved. A query that sees no key gets o = 0, L = m = -FLT_MAX and
 * the sum 1.
 * o must not overlap the inputs.
 */
LS_API LS_EXPERIMENTAL LS_MUST_CHECK ls_status ls_attention_forward(
    const ls_attention_shape *shape, ls_attention_method method, void *o,
    float *saved, const void *q, const void *k, const void *v);

/* The gradients of q, k and v from that of o. Overwrites. */
LS_API LS_EXPERIMENTAL LS_MUST_CHECK ls_status ls_attention_backward(
    const ls_attention_shape *shape, ls_attention_method method, void *dq,
    void *dk, void *dv, const void *dout, const void *q, const void *k,
    const void *v, const void *o, const float *saved);

/* ---- on the tape -----------------------------------------------------------
 */

typedef struct ls_attention_options {
    size_t struct_size; /* sizeof, or 0: as in 0.1 (docs/reference/abi.md) */
    ls_attention_method method;
    bool causal;
    double scale; /* 0: 1/sqrt(d) */
    /*
     * false: q is (batch, heads, queries, d). true: (batch, queries, heads, d),
     * as a linear layer returns it. k and v have the same layout.
     */
    bool rows_outside;
} ls_attention_options;

/* LS_ATTENTION_FLASH, not causal, scaled by 1/sqrt(d), heads before rows. */
#define LS_ATTENTION_OPTIONS_INIT                                              \
    {                                                                          \
        sizeof(ls_attention_options), LS_ATTENTION_FLASH, false, 0, false      \
    }

/*
 * q, k and v of one type, f32 or bf16, contiguous; the result has the shape of
 * q. With LS_ATTENTION_NAIVE the scores count as activations, and a model that
 * does not fit fails with LS_ERR_BUDGET or LS_ERR_MEMORY. NULL for the options
 * means the defaults.
 */
LS_API ls_tensor *ls_attention(ls_tape *tape, ls_tensor *q, ls_tensor *k,
                               ls_tensor *v,
                               const ls_attention_options *options);

#ifdef __cplusplus
}
#endif

#endif

/*
 * Attention to keys and values that are kept: one query a sequence, and parts
 * of attention put together.
 */
#ifndef LS_ARRAY_COMPUTE_ATTENTION_CACHED_H
#define LS_ARRAY_COMPUTE_ATTENTION_CACHED_H

#include <stddef.h>
#include <stdint.h>

#include "lockstep/attention.h"
#include "lockstep/status.h"

/*
 * Rows of one query each. Keys and values of a row's key head are in `slots`
 * rows of d. Those of its other heads follow.
 */
typedef struct lsi_attention_step {
    size_t rows, heads, kv_heads, d, slots;
    const int64_t *keys; /* of each row, at most slots */
    float scale;
} lsi_attention_step;

/* o and q (rows, heads, d), k and v (rows, kv_heads, slots, d). */
ls_status lsi_attention_step_run(const lsi_attention_step *step, float *o,
                                 const float *q, const float *k,
                                 const float *v);

/*
 * Attention over some keys: o (queries, heads, d) and the values that the flash
 * method saves with it. Joined with `other`, over other keys, they become those
 * over all keys. L is not updated: the softmax of the rows, stored after L, is
 * more precise.
 */
typedef struct lsi_attention_part {
    float *o, *saved;
} lsi_attention_part;
enum { LSI_ATTENTION_SAVED = 3 /* floats of a query */ };
void lsi_attention_join(lsi_attention_part part, lsi_attention_part other,
                        size_t queries, size_t heads, size_t d);

/*
 * The flash method, where query i is key first + i: with a causal mask it sees
 * the keys up to this one. Its bits are those of all queries computed together.
 */
ls_status lsi_attention_from(const ls_attention_shape *shape, size_t first,
                             lsi_attention_part out, const float *q,
                             const float *k, const float *v);

#endif

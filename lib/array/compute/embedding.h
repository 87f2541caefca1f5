/* Rows of a table (vocabulary, cols) by i64 indices. */
#ifndef LS_ARRAY_COMPUTE_EMBEDDING_H
#define LS_ARRAY_COMPUTE_EMBEDDING_H

#include <stddef.h>
#include <stdint.h>

#include "lockstep/status.h"
#include "lockstep/types.h"

typedef struct lsi_embedding {
    const int64_t *indices;
    size_t n; /* indices */
    size_t vocabulary, cols;
} lsi_embedding;

/*
 * y[i] = table[indices[i]], in f32 for any type of the table; LS_ERR_ARGUMENT
 * names an index out of range.
 */
ls_status lsi_embedding_forward(const lsi_embedding *e, const void *table,
                                ls_dtype dtype, float *y);

/*
 * dtable[indices[i]] += dy[i], in the order of i. LS_ERR_ARGUMENT if an index
 * has changed to one out of range; dtable is not written then.
 */
ls_status lsi_embedding_backward(const lsi_embedding *e, const float *dy,
                                 float *dtable);

/* indices[i] = first + i % period: the places of tokens in their sequences. */
void lsi_embedding_places(int64_t *indices, size_t n, int64_t first,
                          int64_t period);

#endif

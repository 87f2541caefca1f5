/*
 * Rotary positions; the formulas are above the kernels `rope` and
 * `rotate_half`.
 */
#ifndef LS_ARRAY_COMPUTE_ROPE_H
#define LS_ARRAY_COMPUTE_ROPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum lsi_rope_pairing {
    LSI_ROPE_PAIRS,     /* x[2k], x[2k + 1], and so y */
    LSI_ROPE_TO_HALVES, /* x[2k], x[2k + 1] go to y[k], y[d/2 + k] */
    LSI_ROPE_HALVES     /* x[k], x[d/2 + k], and so y */
} lsi_rope_pairing;

typedef struct lsi_rope {
    size_t length;   /* rows of a sequence; row i turns by i % length */
    size_t heads, d; /* of a row */
    lsi_rope_pairing layout;
} lsi_rope;

/* The rows of `from`; backward is the inverse. Tables (length, d / 2). */
void lsi_rope_forward(const lsi_rope *rope, float *to, const float *from,
                      const float *cosine, const float *sine, size_t rows);
void lsi_rope_backward(const lsi_rope *rope, float *to, const float *from,
                       const float *cosine, const float *sine, size_t rows);

/* Tables (length, pairs): the angle at (t, k) is places[t] rates[k]. */
void lsi_rope_tables(float *cosine, float *sine, const int64_t *places,
                     size_t length, const double *rates, size_t pairs);

#endif

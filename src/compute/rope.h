/* Rotary positions; what is computed stands above the kernel `rope`. */
#ifndef LS_COMPUTE_ROPE_H
#define LS_COMPUTE_ROPE_H

#include <stdbool.h>
#include <stddef.h>

typedef struct lsi_rope {
    size_t length;   /* rows of a sequence; row i turns as i % length says */
    size_t heads, d; /* of a row */
    bool halves;
} lsi_rope;

/* The rows of `from`; backward is the inverse. Tables (length, d / 2). */
void lsi_rope_forward(const lsi_rope *rope, float *to, const float *from,
                      const float *cosine, const float *sine, size_t rows);
void lsi_rope_backward(const lsi_rope *rope, float *to, const float *from,
                       const float *cosine, const float *sine, size_t rows);

/* Tables (length, pairs): the angle at (t, k) is t theta^(-k / pairs). */
void lsi_rope_tables(float *cosine, float *sine, size_t length, size_t pairs,
                     double theta);

#endif

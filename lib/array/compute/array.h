/*
 * Operations on long arrays, divided among threads. Each element is computed
 * alone, so the result does not depend on the division; sums are taken over
 * chunks of a fixed size, added in order, for the same reason.
 */
#ifndef LS_ARRAY_COMPUTE_ARRAY_H
#define LS_ARRAY_COMPUTE_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "array/kernels/arguments.h"
#include "base/rng.h"
#include "lockstep/types.h"

/* ---- f32 ----------------------------------------------------------------- */

void lsi_array_add(float *y, const float *a, const float *b, size_t n);
void lsi_array_sub(float *y, const float *a, const float *b, size_t n);
void lsi_array_mul(float *y, const float *a, const float *b, size_t n);
void lsi_array_div(float *y, const float *a, const float *b, size_t n);
void lsi_array_scale(float *y, const float *a, float factor, size_t n);
/* y += part * (a - y): the difference is rounded, and the sum once. */
void lsi_array_blend(float *y, const float *a, float part, size_t n);
void lsi_array_swap(float *a, float *b, size_t n);
void lsi_array_fill(float *y, float value, size_t n);

/* y = *scalar * factor, rounded once, everywhere. */
void lsi_array_spread(float *y, const float *scalar, double factor, size_t n);

/* y = a where the condition is not 0, else b. y may be a or b. */
void lsi_array_where(float *y, const uint8_t *condition, const float *a,
                     const float *b, size_t n);
/* y = a where (condition != 0) == when, else 0. y may be a. */
void lsi_array_keep_where(float *y, const uint8_t *condition, bool when,
                          const float *a, size_t n);

typedef struct lsi_dropout {
    lsi_rng_key key;
    uint64_t sub;
    uint32_t threshold;
    float factor;
} lsi_dropout;
void lsi_array_dropout(float *y, const float *x, size_t n,
                       const lsi_dropout *dropout);

/* dst = sum of srcs, in the order of the kernel `reduce`. */
enum { LSI_ARRAY_MAX_FOLD = 64 };
void lsi_array_fold(float *dst, float *const *srcs, int n_srcs, size_t n);

/* ---- sums ---------------------------------------------------------------- */

/* The sum of a, or of (a - b)^2 if b is not NULL. */
double lsi_array_total(const float *a, const float *b_or_null, size_t n);

/* The sum of the terms of the kernel bce_with_logits. */
double lsi_array_total_bce(const float *x, const float *t, size_t n);

/* *y = that of a * factor, rounded once. */
void lsi_array_sum(float *y, const float *a, size_t n, double factor);

/* out[c] (+)= sum over the rows of a (rows, cols). */
void lsi_array_column_sum(float *out, const float *a, size_t rows, size_t cols,
                          bool accumulate);

/* sums[b] = sum of squares of block b, as the kernel `squares`. */
void lsi_array_squares(double *sums, const float *a, size_t n);

/* ---- any type ------------------------------------------------------------ */

void lsi_array_convert(void *dst, ls_dtype dst_dtype, const void *src,
                       ls_dtype src_dtype, size_t n);

/* dst += src; halves are rounded once. */
void lsi_array_accumulate(void *dst, const void *src, ls_dtype dtype, size_t n);

void lsi_array_zero(void *dst, ls_dtype dtype, size_t n);
void lsi_array_copy(void *dst, const void *src, ls_dtype dtype, size_t n);

/*
 * dst = src in a half type, written only where it differs: other threads may be
 * reading the elements that are already right.
 */
void lsi_array_correct_halves(uint16_t *dst, ls_dtype dtype, const float *src,
                              size_t n);

/* Planar u8 images (3 x pixels each) as the kernel normalize_u8 makes them. */
void lsi_array_normalize_u8(float *y, const uint8_t *x, size_t pixels,
                            const float scale[3], const float shift[3]);

#endif

/*
 * f32 products by panels (array/kernels/amx/panel.h), for AMX, which multiplies
 * matrices of bf16 much faster than vectors multiply f32. A number of f32 is
 * exactly the sum of three of bf16:
 *
 *     x = x1 + x2 + x3        abs(x2) < 2^-7 abs(x), abs(x3) <= 2^-16 abs(x)
 *
 * so that a b = a1 b1 + a1 b2 + a2 b1 + a1 b3 + a3 b1 + a2 b2 within 2^-21.9
 * of abs(a b), less than four roundings of f32. Products of bf16 are exact in
 * f32, and f32 is what adds them up. The three parts are made as a matrix is
 * copied to the order in which tiles are loaded.
 *
 * Numbers that are not finite give NaN where they meet. Parts below the normal
 * range count as 0.
 */
#ifndef LS_ARRAY_COMPUTE_PANEL_GEMM_H
#define LS_ARRAY_COMPUTE_PANEL_GEMM_H

#include "array/kernels/dense.h"

/* Whether a product is computed so: depends on the shape and the level. */
bool lsi_panel_gemm_suits(const lsi_gemm_shape *shape);

/* As lsi_gemm_run; the shape has been checked and suits. */
ls_status lsi_panel_gemm(const lsi_gemm_shape *shape, float *c, const float *a,
                         const float *b, const float *bias_or_null);

#endif

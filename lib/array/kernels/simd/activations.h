/*
 * Activations of transformers. A sigmoid and its complement are both made of
 * e^-z, so that neither cancels; beyond |z| = 88 they stay at 2^-127.
 */
#ifndef LS_ARRAY_KERNELS_SIMD_ACTIVATIONS_H
#define LS_ARRAY_KERNELS_SIMD_ACTIVATIONS_H

#include "array/kernels/activations.h"
#include "array/kernels/simd/exp.h"

typedef struct sigmoid {
    vf s, rest; /* 1 / (1 + e^-z), 1 - that */
} sigmoid;

INLINE sigmoid sigmoid_of(vf z)
{
    const vf one = vf_set(1.0F);
    const vf e = vf_exp(vf_sub(vf_set(0.0F), z));
    const vf s = vf_div(one, vf_add(one, e));
    return (sigmoid){s, vf_mul(e, s)};
}

void LSI_SIMD(swiglu)(float *y, const float *a, const float *b, size_t n)
{
    FOR_LANES(n, {
        const vf x = vf_load(a + i, m);
        const vf silu = vf_mul(x, sigmoid_of(x).s);
        vf_store(y + i, vf_mul(silu, vf_load(b + i, m)), m);
    });
}

void LSI_SIMD(swiglu_backward)(float *da, float *db, const float *dy,
                               const float *a, const float *b, size_t n)
{
    FOR_LANES(n, {
        const vf x = vf_load(a + i, m);
        const vf gate = vf_load(b + i, m);
        const vf g = vf_load(dy + i, m);
        const sigmoid t = sigmoid_of(x);
        const vf gs = vf_mul(g, t.s);
        const vf slope = vf_fma(x, t.rest, vf_set(1.0F));
        vf_store(da + i, vf_mul(vf_mul(gs, gate), slope), m);
        vf_store(db + i, vf_mul(gs, x), m);
    });
}

/* 2 u; see kernels/activations.h. */
INLINE vf gelu_argument(vf x)
{
    const vf linear = vf_set((float)LSI_GELU_LINEAR);
    const vf cubic = vf_set((float)LSI_GELU_CUBIC);
    return vf_mul(x, vf_fma(vf_mul(x, x), cubic, linear));
}

void LSI_SIMD(gelu)(float *y, const float *a, size_t n)
{
    FOR_LANES(n, {
        const vf x = vf_load(a + i, m);
        vf_store(y + i, vf_mul(x, sigmoid_of(gelu_argument(x)).s), m);
    });
}

void LSI_SIMD(gelu_backward)(float *dx, const float *dy, const float *a,
                             size_t n, bool accumulate)
{
    const vf linear = vf_set((float)LSI_GELU_LINEAR);
    const vf cubic = vf_set((float)(3.0 * LSI_GELU_CUBIC));
    FOR_LANES(n, {
        const vf x = vf_load(a + i, m);
        const sigmoid t = sigmoid_of(gelu_argument(x));
        const vf slope = vf_fma(vf_mul(x, x), cubic, linear);
        const vf inner = vf_fma(vf_mul(x, t.rest), slope, vf_set(1.0F));
        vf g = vf_mul(vf_mul(vf_load(dy + i, m), t.s), inner);
        if (accumulate)
            g = vf_add(vf_load(dx + i, m), g);
        vf_store(dx + i, g, m);
    });
}

#endif

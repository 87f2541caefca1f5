/* Functions of one argument. */
#ifndef LS_ARRAY_KERNELS_SIMD_FUNCTIONS_H
#define LS_ARRAY_KERNELS_SIMD_FUNCTIONS_H

#include "array/kernels/simd/activations.h"
#include "array/kernels/simd/exp.h"
#include "array/kernels/simd/log.h"

void LSI_SIMD(exp)(float *y, const float *a, size_t n)
{
    FOR_LANES(n, { vf_store(y + i, vf_exp_whole(vf_load(a + i, m)), m); });
}

void LSI_SIMD(log)(float *y, const float *a, size_t n)
{
    FOR_LANES(n, { vf_store(y + i, vf_log(vf_load(a + i, m)), m); });
}

void LSI_SIMD(sqrt)(float *y, const float *a, size_t n)
{
    FOR_LANES(n, { vf_store(y + i, vf_sqrt(vf_load(a + i, m)), m); });
}

/*
 * 1 - 2 / (e^2|x| + 1) with the sign of x, which cancels near 0: there x + x^3
 * p(x^2) with the polynomial of Cephes' tanhf.
 */
INLINE vf vf_tanh(vf x)
{
    const vf one = vf_set(1.0F), zero = vf_set(0.0F);
    const vm negative = vf_gt(zero, x);
    const vf size = vf_select(negative, vf_sub(zero, x), x);
    const vf e = vf_exp(vf_add(size, size));
    vf far = vf_sub(one, vf_div(vf_set(2.0F), vf_add(e, one)));
    far = vf_select(negative, vf_sub(zero, far), far);
    const vf z = vf_mul(x, x);
    vf p = vf_set(-5.70498872745e-3F);
    p = vf_fma(p, z, vf_set(2.06390887954e-2F));
    p = vf_fma(p, z, vf_set(-5.37397155531e-2F));
    p = vf_fma(p, z, vf_set(1.33314422036e-1F));
    p = vf_fma(p, z, vf_set(-3.33332819422e-1F));
    const vf near = vf_fma(vf_mul(p, z), x, x);
    return vf_select(vf_gt(size, vf_set(0.625F)), far, near);
}

void LSI_SIMD(tanh)(float *y, const float *a, size_t n)
{
    FOR_LANES(n, { vf_store(y + i, vf_tanh(vf_load(a + i, m)), m); });
}

void LSI_SIMD(tanh_backward)(float *dx, const float *dy, const float *y,
                             size_t n)
{
    const vf one = vf_set(1.0F);
    FOR_LANES(n, {
        const vf x = vf_load(y + i, m);
        const vf slope = vf_fnma(x, x, one);
        vf_store(dx + i, vf_mul(vf_load(dy + i, m), slope), m);
    });
}

void LSI_SIMD(sigmoid)(float *y, const float *a, size_t n)
{
    FOR_LANES(n, { vf_store(y + i, sigmoid_of(vf_load(a + i, m)).s, m); });
}

void LSI_SIMD(sigmoid_backward)(float *dx, const float *dy, const float *y,
                                size_t n)
{
    FOR_LANES(n, {
        const vf s = vf_load(y + i, m);
        const vf slope = vf_fnma(s, s, s);
        vf_store(dx + i, vf_mul(vf_load(dy + i, m), slope), m);
    });
}

#endif

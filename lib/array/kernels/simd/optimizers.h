/* Optimizer steps over flat ranges. */
#ifndef LS_ARRAY_KERNELS_SIMD_OPTIMIZERS_H
#define LS_ARRAY_KERNELS_SIMD_OPTIMIZERS_H

#include "array/kernels/simd/words.h"

static void sgd_plain(float *p, const float *g, size_t n, vf lr,
                      vf weight_decay, vf grad_scale)
{
    FOR_LANES(n, {
        const vf old = vf_load(p + i, m);
        const vf scaled = vf_mul(vf_load(g + i, m), grad_scale);
        const vf step = vf_fma(weight_decay, old, scaled);
        vf_store(p + i, vf_fnma(lr, step, old), m);
    });
}

static void sgd_momentum(float *p, float *v, const float *g, size_t n, vf lr,
                         vf momentum, vf weight_decay, vf grad_scale,
                         bool first)
{
    FOR_LANES(n, {
        const vf old = vf_load(p + i, m);
        const vf scaled = vf_mul(vf_load(g + i, m), grad_scale);
        vf step = vf_fma(weight_decay, old, scaled);
        if (!first)
            step = vf_fma(momentum, vf_load(v + i, m), step);
        vf_store(v + i, step, m);
        vf_store(p + i, vf_fnma(lr, step, old), m);
    });
}

void LSI_SIMD(sgd)(float *p, float *v_or_null, const float *g, size_t n,
                   float lr, float momentum, float weight_decay,
                   float grad_scale, bool first)
{
    if (v_or_null)
        sgd_momentum(p, v_or_null, g, n, vf_set(lr), vf_set(momentum),
                     vf_set(weight_decay), vf_set(grad_scale), first);
    else
        sgd_plain(p, g, n, vf_set(lr), vf_set(weight_decay),
                  vf_set(grad_scale));
}

INLINE vf sign_of(vf x)
{
    const vf zero = vf_set(0), one = vf_set(1);
    const vf down = vf_select(vf_gt(zero, x), vf_set(-1), x);
    return vf_select(vf_gt(x, zero), one, down);
}

void LSI_SIMD(lion)(float *p, float *mean, const float *g, size_t n,
                    const lsi_lion *numbers)
{
    const vf grad_scale = vf_set(numbers->grad_scale);
    const vf beta1 = vf_set(numbers->beta1), rest1 = vf_set(numbers->rest1);
    const vf beta2 = vf_set(numbers->beta2), rest2 = vf_set(numbers->rest2);
    const vf lr = vf_set(numbers->lr), decay = vf_set(numbers->decay);
    FOR_LANES(n, {
        const vf grad = vf_mul(vf_load(g + i, m), grad_scale);
        const vf old = vf_load(p + i, m), mu = vf_load(mean + i, m);
        const vf c = vf_fma(beta1, mu, vf_mul(rest1, grad));
        vf_store(mean + i, vf_fma(beta2, mu, vf_mul(rest2, grad)), m);
        const vf x = vf_fnma(decay, old, old);
        vf_store(p + i, vf_fnma(lr, sign_of(c), x), m);
    });
}

void LSI_SIMD(adamw)(float *p, float *mean, float *v, const float *g, size_t n,
                     const lsi_adamw *numbers)
{
    const vf grad_scale = vf_set(numbers->grad_scale);
    const vf beta1 = vf_set(numbers->beta1), rest1 = vf_set(numbers->rest1);
    const vf beta2 = vf_set(numbers->beta2), rest2 = vf_set(numbers->rest2);
    const vf root_scale = vf_set(numbers->root_scale);
    const vf eps = vf_set(numbers->eps), step = vf_set(numbers->step);
    const vf decay_first = vf_set(numbers->decay_first);
    const vf decay_last = vf_set(numbers->decay_last);
    FOR_LANES(n, {
        const vf grad = vf_mul(vf_load(g + i, m), grad_scale);
        const vf old = vf_load(p + i, m);
        const vf first =
            vf_fma(beta1, vf_load(mean + i, m), vf_mul(rest1, grad));
        const vf second =
            vf_fma(beta2, vf_load(v + i, m), vf_mul(vf_mul(rest2, grad), grad));
        const vf size = vf_fma(root_scale, vf_sqrt(second), eps);
        vf x = vf_fnma(decay_first, old, old);
        x = vf_fnma(step, vf_div(first, size), x);
        vf_store(mean + i, first, m);
        vf_store(v + i, second, m);
        vf_store(p + i, vf_fnma(decay_last, x, x), m);
    });
}

#endif

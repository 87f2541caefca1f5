/* Optimizer steps over flat ranges. */
#include <math.h>

#include "array/kernels/ref/ref.h"

void lsi_ref_sgd(float *p, float *v_or_null, const float *g, size_t n, float lr,
                 float momentum, float weight_decay, float grad_scale,
                 bool first)
{
    for (size_t i = 0; i < n; i++) {
        float step = fmaf(weight_decay, p[i], g[i] * grad_scale);
        if (v_or_null) {
            if (!first)
                step = fmaf(momentum, v_or_null[i], step);
            v_or_null[i] = step;
        }
        p[i] = fmaf(-lr, step, p[i]);
    }
}

static float sign_of(float x)
{
    if (x > 0)
        return 1;
    return x < 0 ? -1 : x; /* 0 or NaN */
}

void lsi_ref_lion(float *p, float *m, const float *g, size_t n,
                  const lsi_lion *numbers)
{
    const lsi_lion k = *numbers;
    for (size_t i = 0; i < n; i++) {
        const float grad = g[i] * k.grad_scale;
        const float c = fmaf(k.beta1, m[i], k.rest1 * grad);
        m[i] = fmaf(k.beta2, m[i], k.rest2 * grad);
        const float x = fmaf(-k.decay, p[i], p[i]);
        p[i] = fmaf(-k.lr, sign_of(c), x);
    }
}

void lsi_ref_adamw(float *p, float *m, float *v, const float *g, size_t n,
                   const lsi_adamw *numbers)
{
    const lsi_adamw k = *numbers;
    for (size_t i = 0; i < n; i++) {
        const float grad = g[i] * k.grad_scale;
        m[i] = fmaf(k.beta1, m[i], k.rest1 * grad);
        v[i] = fmaf(k.beta2, v[i], k.rest2 * grad * grad);
        const float size = fmaf(k.root_scale, sqrtf(v[i]), k.eps);
        float x = fmaf(-k.decay_first, p[i], p[i]);
        x = fmaf(-k.step, m[i] / size, x);
        p[i] = fmaf(-k.decay_last, x, x);
    }
}

/* Optimizer steps over flat ranges. */
#include <math.h>

#include "kernels/ref/ref.h"

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

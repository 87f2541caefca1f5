/* Optimizer steps: the same bits at every level. */
#include <math.h>

#include "harness.h"
#include "testing.h"

typedef struct sgd_case {
    float lr, momentum, weight_decay, grad_scale;
    bool first;
} sgd_case;

static void check_sgd_n(const lsi_kernels *k, size_t n, const sgd_case *c)
{
    const bool has_v = c->momentum != 0.0F;
    float *p = random_floats(n, -2, 2), *v = random_floats(n, -2, 2);
    const float *g = random_floats(n, -2, 2);
    float *p_ref = copy_floats(p, n), *v_ref = copy_floats(v, n);
    const float *p_old = copy_floats(p, n), *v_old = copy_floats(v, n);
    k->sgd(p, has_v ? v : NULL, g, n, c->lr, c->momentum, c->weight_decay,
           c->grad_scale, c->first);
    reference()->sgd(p_ref, has_v ? v_ref : NULL, g, n, c->lr, c->momentum,
                     c->weight_decay, c->grad_scale, c->first);
    expect_same(p, p_ref, n, "sgd, parameters");
    expect_same(v, v_ref, n, "sgd, momentum");
    for (size_t i = 0; i < n; i++) {
        const double decay = (double)c->weight_decay * p_old[i];
        const double scaled = (double)g[i] * c->grad_scale;
        const double moved =
            has_v && !c->first ? (double)c->momentum * v_old[i] : 0.0;
        const double step = scaled + decay + moved;
        /* Three roundings on the way to the step, one more at the end. */
        const double size = fabs(scaled) + fabs(decay) + fabs(moved);
        const double step_bound = 3 * HALF_ULP * size;
        if (has_v)
            expect_near(v[i], step, step_bound, "sgd, momentum", i);
        expect_near(p[i], p_old[i] - c->lr * step,
                    c->lr * step_bound +
                        HALF_ULP * (fabs((double)p_old[i]) + c->lr * size),
                    "sgd, parameters", i);
    }
    release_all();
}

void check_sgd(const lsi_kernels *k)
{
    static const sgd_case cases[] = {
        {.lr = 0.1F, .grad_scale = 1.0F},
        {.lr = 0.1F, .weight_decay = 0.01F, .grad_scale = 0.5F},
        {.lr = 0.1F, .momentum = 0.9F, .grad_scale = 0.25F, .first = true},
        {.lr = 0.1F, .momentum = 0.9F, .weight_decay = 0.1F, .grad_scale = 1}};
    for (size_t c = 0; c < TEST_COUNT(cases); c++)
        for (size_t l = 0; l < test_length_count; l++)
            check_sgd_n(k, test_lengths[l], &cases[c]);
}

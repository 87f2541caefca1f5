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

/* An element of AdamW in double, and what the kernel may be off by. */
static void expect_adamw(const float after[3], const float before[3], float g,
                         const lsi_adamw *k, size_t i)
{
    const double p = before[0], grad = (double)g * k->grad_scale;
    const double m = (double)k->beta1 * before[1] + k->rest1 * grad;
    const double v = (double)k->beta2 * before[2] + k->rest2 * grad * grad;
    const double m_size =
        fabs((double)k->beta1 * before[1]) + fabs(k->rest1 * grad);
    /* The gradient is rounded once, its share once, the sum once. */
    expect_near(after[1], m, 3 * HALF_ULP * m_size, "adamw, mean", i);
    /* All terms are positive: relative to the result. */
    expect_near(after[2], v, 6 * HALF_ULP * v, "adamw, squares", i);
    const double size = k->root_scale * sqrt(v) + k->eps;
    const double kept = p * (1 - k->decay_first);
    const double moved = k->step * m / size;
    const double want = (kept - moved) * (1 - k->decay_last);
    /* sqrt(v) takes half of v's errors and rounds, as do size and quotient. */
    const double quotient = k->step * (m_size * 3 + fabs(m) * 6) / size;
    expect_near(after[0], want,
                HALF_ULP * 1.01 *
                    (quotient + 3 * (fabs(p) + fabs(moved)) + fabs(want)),
                "adamw, parameters", i);
}

static void check_adamw_n(const lsi_kernels *k, size_t n, const lsi_adamw *c)
{
    float *p = random_floats(n, -2, 2), *m = random_floats(n, -2, 2);
    float *v = random_floats(n, 0, 2);
    const float *g = random_floats(n, -2, 2);
    float *p_ref = copy_floats(p, n), *m_ref = copy_floats(m, n);
    float *v_ref = copy_floats(v, n);
    const float *p_old = copy_floats(p, n), *m_old = copy_floats(m, n);
    const float *v_old = copy_floats(v, n);
    k->adamw(p, m, v, g, n, c);
    reference()->adamw(p_ref, m_ref, v_ref, g, n, c);
    expect_same(p, p_ref, n, "adamw, parameters");
    expect_same(m, m_ref, n, "adamw, mean");
    expect_same(v, v_ref, n, "adamw, squares");
    for (size_t i = 0; i < n; i++)
        expect_adamw((const float[]){p[i], m[i], v[i]},
                     (const float[]){p_old[i], m_old[i], v_old[i]}, g[i], c, i);
    release_all();
}

void check_adamw(const lsi_kernels *k)
{
    static const lsi_adamw cases[] = {{.grad_scale = 1,
                                       .beta1 = 0.9F,
                                       .rest1 = 0.1F,
                                       .beta2 = 0.999F,
                                       .rest2 = 0.001F,
                                       .step = 0.01F,
                                       .root_scale = 1,
                                       .eps = 1e-8F},
                                      {.grad_scale = 0.25F,
                                       .beta1 = 0.9F,
                                       .rest1 = 0.1F,
                                       .beta2 = 0.95F,
                                       .rest2 = 0.05F,
                                       .step = 0.1F,
                                       .root_scale = 30,
                                       .eps = 1e-3F,
                                       .decay_first = 0.01F},
                                      {.grad_scale = 3,
                                       .beta1 = 0,
                                       .rest1 = 1,
                                       .beta2 = 0,
                                       .rest2 = 1,
                                       .step = 0.5F,
                                       .root_scale = 1,
                                       .eps = 0.5F,
                                       .decay_last = 0.125F}};
    for (size_t c = 0; c < TEST_COUNT(cases); c++)
        for (size_t l = 0; l < test_length_count; l++)
            check_adamw_n(k, test_lengths[l], &cases[c]);
}

/* An element of Lion in double; near 0 the sign may be either. */
static void expect_lion(const float after[2], const float before[2], float g,
                        const lsi_lion *k, size_t i)
{
    const double p = before[0], m = before[1], grad = (double)g * k->grad_scale;
    const double c = k->beta1 * m + k->rest1 * grad;
    const double c_bound =
        3 * HALF_ULP * (fabs(k->beta1 * m) + fabs(k->rest1 * grad));
    const double kept = k->beta2 * m + k->rest2 * grad;
    expect_near(after[1], kept,
                3 * HALF_ULP * (fabs(k->beta2 * m) + fabs(k->rest2 * grad)),
                "lion, mean", i);
    const double sign = (c > 0) - (c < 0);
    expect_near(after[0], p - k->decay * p - k->lr * sign,
                2 * HALF_ULP * (fabs(p) + k->lr) +
                    (fabs(c) <= c_bound ? 2 * k->lr : 0),
                "lion, parameters", i);
}

static void check_lion_n(const lsi_kernels *k, size_t n, const lsi_lion *c)
{
    float *p = random_floats(n, -2, 2), *m = random_floats(n, -2, 2);
    const float *g = random_floats(n, -2, 2);
    float *p_ref = copy_floats(p, n), *m_ref = copy_floats(m, n);
    const float *p_old = copy_floats(p, n), *m_old = copy_floats(m, n);
    k->lion(p, m, g, n, c);
    reference()->lion(p_ref, m_ref, g, n, c);
    expect_same(p, p_ref, n, "lion, parameters");
    expect_same(m, m_ref, n, "lion, mean");
    for (size_t i = 0; i < n; i++)
        expect_lion((const float[]){p[i], m[i]},
                    (const float[]){p_old[i], m_old[i]}, g[i], c, i);
    release_all();
}

void check_lion(const lsi_kernels *k)
{
    static const lsi_lion cases[] = {{.grad_scale = 1,
                                      .beta1 = 0.9F,
                                      .rest1 = 0.1F,
                                      .beta2 = 0.99F,
                                      .rest2 = 0.01F,
                                      .lr = 1e-4F},
                                     {.grad_scale = 0.25F,
                                      .beta1 = 0.5F,
                                      .rest1 = 0.5F,
                                      .beta2 = 0.75F,
                                      .rest2 = 0.25F,
                                      .lr = 0.125F,
                                      .decay = 0.0125F},
                                     {.grad_scale = 0,
                                      .beta1 = 0,
                                      .rest1 = 1,
                                      .beta2 = 0,
                                      .rest2 = 1,
                                      .lr = 0.5F}};
    for (size_t c = 0; c < TEST_COUNT(cases); c++)
        for (size_t l = 0; l < test_length_count; l++)
            check_lion_n(k, test_lengths[l], &cases[c]);
}

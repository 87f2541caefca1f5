/*
 * What a member of 0 does, for each member of each struct of options: the
 * default where 0 is not a setting, and 0 where it is (docs/abi.md).
 */
#include <math.h>

#include "flat.h"
#include "lockstep/lockstep.h"
#include "testing.h"

/* ---- optimizers ---------------------------------------------------------- */

enum { STEPS = 3 };

static const double gradients[STEPS] = {2, -4, 1};

/* A parameter of one element, 1 at first, after three steps. */
static double trained(const ls_optimizer_spec *spec)
{
    const int64_t one = 1;
    size_t count;
    ls_params *params = NULL;
    ls_optimizer *optimizer = NULL;
    assert_ok(ls_params_new(&params));
    assert_ok(ls_params_add(params, "p", 1, &one,
                            (ls_init){LS_INIT_CONSTANT, 1, 0}, NULL));
    assert_ok(ls_params_allocate(params, NULL, 1));
    assert_ok(ls_optimizer_new(&optimizer, params, spec));
    for (int i = 0; i < STEPS; i++) {
        ls_params_finish_grad(params);
        flat_grad_of(params, &count)[0] = (float)gradients[i];
        assert_ok(ls_optimizer_step(optimizer, 1));
    }
    const double p = (double)flat_of(params, &count)[0];
    ls_optimizer_free(&optimizer);
    ls_params_free(&params);
    return p;
}

/* The options of any kind, with those that it does not have left out. */
typedef struct numbers {
    double lr, momentum, beta1, beta2, eps, weight_decay;
    bool decay_last;
} numbers;

static double sgd(const numbers *o)
{
    double p = 1, v = 0;
    for (int i = 0; i < STEPS; i++) {
        v = o->momentum * v + gradients[i] + o->weight_decay * p;
        p -= o->lr * v;
    }
    return p;
}

static double adamw(const numbers *o)
{
    double p = 1, m = 0, v = 0;
    for (int t = 1; t <= STEPS; t++) {
        const double g = gradients[t - 1];
        const double mean = 1 - pow(o->beta1, t), square = 1 - pow(o->beta2, t);
        m = o->beta1 * m + (1 - o->beta1) * g;
        v = o->beta2 * v + (1 - o->beta2) * g * g;
        if (!o->decay_last)
            p -= o->lr * o->weight_decay * p;
        p -= o->decay_last
                 ? o->lr * sqrt(square) / mean * m / (sqrt(v) + o->eps)
                 : o->lr / mean * m / (sqrt(v / square) + o->eps);
        if (o->decay_last)
            p -= o->lr * o->weight_decay * p;
    }
    return p;
}

static double lion(const numbers *o)
{
    double p = 1, m = 0;
    for (int i = 0; i < STEPS; i++) {
        const double c = o->beta1 * m + (1 - o->beta1) * gradients[i];
        p -= o->lr * ((c > 0) - (c < 0) + o->weight_decay * p);
        m = o->beta2 * m + (1 - o->beta2) * gradients[i];
    }
    return p;
}

#define SGD(...)                                                               \
    .sgd = &(const ls_sgd_options)                                             \
    {                                                                          \
        __VA_ARGS__                                                            \
    }
#define ADAMW(...)                                                             \
    .adamw = &(const ls_adamw_options)                                         \
    {                                                                          \
        __VA_ARGS__                                                            \
    }
#define LION(...)                                                              \
    .lion = &(const ls_lion_options)                                           \
    {                                                                          \
        __VA_ARGS__                                                            \
    }

static const struct optimizer_row {
    const char *member;
    ls_optimizer_spec spec;
    double (*reference)(const numbers *);
    numbers is;
} optimizer_rows[] = {
    {"sgd: none",
     {.kind = LS_OPTIMIZER_SGD},
     sgd,
     {.lr = 0.01, .momentum = 0.5}},
    {"sgd: struct_size, lr",
     {SGD(.momentum = 0.9, .weight_decay = 0.1)},
     sgd,
     {.lr = 0.01, .momentum = 0.9, .weight_decay = 0.1}},
    {"sgd: momentum",
     {SGD(.lr = 0.25, .weight_decay = 0.1)},
     sgd,
     {.lr = 0.25, .weight_decay = 0.1}},
    {"sgd: weight_decay",
     {SGD(.lr = 0.25, .momentum = 0.9)},
     sgd,
     {.lr = 0.25, .momentum = 0.9}},
    {"kind",
     {.kind = LS_OPTIMIZER_DEFAULT},
     adamw,
     {.lr = 1e-3,
      .beta1 = 0.9,
      .beta2 = 0.999,
      .eps = 1e-8,
      .weight_decay = 0.01}},
    {"adamw: lr, order",
     {ADAMW(.beta1 = 0.5, .beta2 = 0.75, .eps = 0.5, .weight_decay = 20)},
     adamw,
     {.lr = 1e-3, .beta1 = 0.5, .beta2 = 0.75, .eps = 0.5, .weight_decay = 20}},
    {"adamw: beta1",
     {ADAMW(.lr = 0.25, .beta2 = 0.75, .eps = 0.5)},
     adamw,
     {.lr = 0.25, .beta2 = 0.75, .eps = 0.5}},
    {"adamw: beta2",
     {ADAMW(.lr = 0.25, .beta1 = 0.5, .eps = 0.5)},
     adamw,
     {.lr = 0.25, .beta1 = 0.5, .eps = 0.5}},
    {"adamw: eps, weight_decay",
     {ADAMW(.lr = 0.25, .beta1 = 0.5, .beta2 = 0.75)},
     adamw,
     {.lr = 0.25, .beta1 = 0.5, .beta2 = 0.75, .eps = 1e-8}},
    {"lion: none",
     {.kind = LS_OPTIMIZER_LION},
     lion,
     {.lr = 1e-4, .beta1 = 0.9, .beta2 = 0.99, .weight_decay = 0.1}},
    {"lion: lr",
     {LION(.beta1 = 0.5, .beta2 = 0.75, .weight_decay = 20)},
     lion,
     {.lr = 1e-4, .beta1 = 0.5, .beta2 = 0.75, .weight_decay = 20}},
    {"lion: beta1",
     {LION(.lr = 0.25, .beta2 = 0.75)},
     lion,
     {.lr = 0.25, .beta2 = 0.75}},
    {"lion: beta2",
     {LION(.lr = 0.25, .beta1 = 0.75)},
     lion,
     {.lr = 0.25, .beta1 = 0.75}},
};

static void zeros_of_optimizers(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(optimizer_rows); i++) {
        const struct optimizer_row *const row = &optimizer_rows[i];
        const double expected = row->reference(&row->is);
        const double got = trained(&row->spec);
        if (!(fabs(got - expected) <= 1e-6))
            fail_msg("%s: %.9g, not %.9g", row->member, got, expected);
    }
}

/* LS_..._OPTIONS_INIT, no options and no spec are the same. */
static void init_is_the_default(void **state)
{
    static const ls_sgd_options of_sgd = LS_SGD_OPTIONS_INIT;
    static const ls_adamw_options of_adamw = LS_ADAMW_OPTIONS_INIT;
    static const ls_lion_options of_lion = LS_LION_OPTIONS_INIT;
    (void)state;
    assert_true(trained(&(ls_optimizer_spec){.sgd = &of_sgd}) ==
                trained(&(ls_optimizer_spec){.kind = LS_OPTIMIZER_SGD}));
    assert_true(trained(&(ls_optimizer_spec){.adamw = &of_adamw}) ==
                trained(NULL));
    assert_true(trained(&(ls_optimizer_spec){.lion = &of_lion}) ==
                trained(&(ls_optimizer_spec){.kind = LS_OPTIMIZER_LION}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zeros_of_optimizers),
        cmocka_unit_test(init_is_the_default),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

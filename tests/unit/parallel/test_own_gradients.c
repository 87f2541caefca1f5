/*
 * Gradients that a program computes itself, and weights in its memory.
 * Under every strategy they become what a set in the library's memory becomes,
 * bit for bit, and that is what a loop in double says.
 */
#include "testing.h"

#include <math.h>
#include <stdlib.h>

#include "base/half.h"
#include "lockstep/checkpoint.h"
#include "lockstep/optim.h"
#include "lockstep/parallel.h"
#include "model/parallel/strategy.h"
#include "unit/comm/ranks.h"

enum { PARAMS = 7, FROZEN = 3, TOTAL = 33 + 1 + 0 + 7 + 4099 + 64 + 130 };
enum { STEPS = 4 };

static const int64_t counts[PARAMS] = {33, 1, 0, 7, 4099, 64, 130};
static const char *const names[PARAMS] = {"a", "b", "empty", "frozen",
                                          "c", "d", "e"};

static const double LR = 0.125, MOMENTUM = 0.5;

/* Eighths, which all types have, and whose sums are exact. */
static float first_value(size_t i)
{
    return (float)((int)(i * 7 % 33) - 16) / 8;
}

static float gradient(int rank, int step, size_t i)
{
    return (float)((int)(i % 61) - 30 + rank * 3 - step * 5);
}

/* Rank 1 has no samples in every other step. */
static int weight_of(int rank, int step)
{
    return rank == 1 && step % 2 == 1 ? 0 : rank + 1;
}

/* ---- a set --------------------------------------------------------------- */

/* How a set's memory is the program's. */
typedef struct form {
    bool adopts;
    ls_dtype weights, grads;
    bool has_grads;   /* else they are written to ls_grad */
    bool every_other; /* parameters only */
} form;

static const form forms[] = {
    {.adopts = false},
    {true, LS_F32, LS_F32, true, false},
    {true, LS_F32, LS_F32, false, false},
    {true, LS_F32, LS_BF16, true, true},
    {true, LS_BF16, LS_F16, true, false},
    {true, LS_F16, LS_F32, false, true},
};

typedef struct model {
    form form;
    ls_params *params;
    void *weights[PARAMS], *grads[PARAMS];
} model;

static void store(void *to, ls_dtype dtype, size_t i, float x)
{
    if (dtype == LS_F32)
        ((float *)to)[i] = x;
    else
        ((uint16_t *)to)[i] =
            dtype == LS_BF16 ? lsi_bf16_from_f32(x) : lsi_f16_from_f32(x);
}

static float load(const void *from, ls_dtype dtype, size_t i)
{
    if (dtype == LS_F32)
        return ((const float *)from)[i];
    const uint16_t half = ((const uint16_t *)from)[i];
    return dtype == LS_BF16 ? lsi_bf16_to_f32(half) : lsi_f16_to_f32(half);
}

static size_t start_of(size_t p)
{
    size_t at = 0;
    for (size_t i = 0; i < p; i++)
        at += (size_t)counts[i];
    return at;
}

static bool adopts(const form *f, size_t p)
{
    return f->adopts && !(f->every_other && p % 2 == 1);
}

static void *block(size_t n, ls_dtype dtype)
{
    void *const memory = malloc(n * ls_dtype_size(dtype) + 1);
    CHECK(memory != NULL);
    return memory;
}

static void add(model *m, size_t p, int rank)
{
    const size_t n = (size_t)counts[p];
    ls_tensor *tensor = NULL;
    if (adopts(&m->form, p)) {
        m->weights[p] = block(n, m->form.weights);
        if (m->form.has_grads)
            m->grads[p] = block(n, m->form.grads);
        /* Rank 0's are those that count. */
        for (size_t i = 0; i < n; i++)
            store(m->weights[p], m->form.weights, i,
                  first_value(start_of(p) + i) + (float)rank);
        const ls_param_memory memory = {.struct_size = sizeof(memory),
                                        .data = m->weights[p],
                                        .dtype = m->form.weights,
                                        .grad = m->grads[p],
                                        .grad_dtype = m->form.grads};
        CHECK_OK(ls_params_adopt(m->params, names[p], 1, &counts[p], &memory,
                                 &tensor));
    } else {
        CHECK_OK(ls_params_add(m->params, names[p], 1, &counts[p],
                               (ls_init){LS_INIT_CONSTANT, 0, 0}, &tensor));
    }
    if (p == FROZEN)
        CHECK_OK(ls_params_set_trainable(m->params, tensor, false));
}

static float *values(const model *m, size_t p)
{
    void *data = NULL;
    CHECK_OK(ls_tensor_map(ls_params_get(m->params, p), &data));
    return data;
}

static void make(model *m, const form *f, ls_group *group)
{
    *m = (model){.form = *f};
    CHECK_OK(ls_params_new(&m->params));
    for (size_t p = 0; p < PARAMS; p++)
        add(m, p, ls_group_rank(group));
    CHECK_OK(ls_params_allocate(m->params, group, 1));
    for (size_t p = 0; p < PARAMS; p++)
        for (size_t i = 0; !adopts(f, p) && i < (size_t)counts[p]; i++)
            values(m, p)[i] = first_value(start_of(p) + i);
    ls_params_changed(m->params);
}

static void destroy(model *m)
{
    ls_params_free(&m->params);
    for (size_t p = 0; p < PARAMS; p++) {
        free(m->weights[p]);
        free(m->grads[p]);
    }
}

/* ---- a backward of the program's ----------------------------------------- */

static void backward(model *m, ls_ddp *ddp, int rank, int step)
{
    for (size_t k = 0; k < PARAMS; k++) {
        const size_t p = (k * 3 + (size_t)(rank + step)) % PARAMS;
        if (p == FROZEN)
            continue;
        float *own = NULL;
        if (m->grads[p] == NULL)
            CHECK_OK(ls_tensor_map(ls_grad(ls_params_get(m->params, p)),
                                   (void **)&own));
        for (size_t i = 0; i < (size_t)counts[p]; i++) {
            const float g = gradient(rank, step, start_of(p) + i);
            if (own != NULL)
                own[i] = g;
            else
                store(m->grads[p], m->form.grads, i, g);
        }
        CHECK_OK(ls_ddp_ready(ddp, p));
    }
}

static double mean_gradient(int size, int step, size_t i)
{
    double sum = 0, weight = 0;
    for (int r = 0; r < size; r++) {
        if (weight_of(r, step) == 0)
            continue;
        sum += (double)gradient(r, step, i);
        weight += weight_of(r, step);
    }
    return sum / weight;
}

/* The means are where the program has its gradients, if a rank gets all. */
static void check_gradients(const model *m, int size, int step)
{
    for (size_t p = 0; p < PARAMS; p++) {
        if (p == FROZEN || m->grads[p] == NULL)
            continue;
        /* A sum of whole numbers is exact; one product, one rounding more. */
        const double eps = m->form.grads == LS_F32    ? 0x1p-24
                           : m->form.grads == LS_BF16 ? 0x1p-8
                                                      : 0x1p-11;
        for (size_t i = 0; i < (size_t)counts[p]; i++) {
            const double want = mean_gradient(size, step, start_of(p) + i);
            const double got = (double)load(m->grads[p], m->form.grads, i);
            CHECK(fabs(got - want) <= (eps + 3 * 0x1p-24) * fabs(want));
        }
    }
}

static void train(model *m, ls_group *group, const ls_ddp_options *how,
                  float *out)
{
    const int rank = ls_group_rank(group), size = ls_group_size(group);
    ls_ddp *ddp = NULL;
    ls_optimizer *sgd = NULL;
    CHECK_OK(ls_ddp_new(&ddp, group, m->params, how));
    CHECK_OK(ls_optimizer_new(
        &sgd, m->params,
        &(ls_optimizer_spec){
            .sgd = &(ls_sgd_options){.lr = LR, .momentum = MOMENTUM}}));
    CHECK_OK(ls_ema_start(sgd, 0.5));
    for (int step = 0; step < STEPS; step++) {
        CHECK_OK(ls_ddp_begin(ddp, weight_of(rank, step)));
        if (weight_of(rank, step) > 0)
            backward(m, ddp, rank, step);
        CHECK_OK(ls_ddp_finish(ddp));
        if (how->strategy < LS_DDP_ZERO1)
            check_gradients(m, size, step);
        CHECK_OK(ls_optimizer_step(sgd, 1));
    }
    CHECK_OK(ls_ema_swap(sgd)); /* the averages, and back: nothing is lost */
    CHECK_OK(ls_ema_swap(sgd));
    for (size_t p = 0; p < PARAMS; p++)
        for (size_t i = 0; i < (size_t)counts[p]; i++)
            out[start_of(p) + i] = values(m, p)[i];
    CHECK_OK(ls_barrier(group)); /* one copy is read by all */
    ls_optimizer_free(&sgd);
    ls_ddp_free(&ddp);
}

/* ---- what should come of it ---------------------------------------------- */

/*
 * In double. In each step the gradient has an error of 2 eps of itself, the
 * momentum and the weight one rounding of each operation; all are below 64.
 */
static void check_reference(const float *got, int size)
{
    const double bound = STEPS * STEPS * 8 * 64 * 0x1p-24;
    for (size_t p = 0; p < PARAMS; p++) {
        for (size_t i = start_of(p); i < start_of(p + 1); i++) {
            double w = (double)first_value(i), v = 0;
            for (int step = 0; p != FROZEN && step < STEPS; step++) {
                v = MOMENTUM * v + mean_gradient(size, step, i);
                w -= LR * v;
            }
            CHECK(fabs((double)got[i] - w) <= bound);
        }
    }
}

/* The program sees the weights, rounded to its type. */
static void check_seen(const model *m, const float *weights)
{
    for (size_t p = 0; p < PARAMS; p++) {
        for (size_t i = 0; m->weights[p] != NULL && i < (size_t)counts[p];
             i++) {
            float rounded;
            store(&rounded, m->form.weights, 0, weights[start_of(p) + i]);
            CHECK(load(m->weights[p], m->form.weights, i) ==
                  load(&rounded, m->form.weights, 0));
        }
    }
}

static void check_same_on_all(ls_group *group, const float *weights)
{
    float *const all = malloc(TOTAL * sizeof(float));
    CHECK(all != NULL);
    memcpy(all, weights, TOTAL * sizeof(float));
    CHECK_OK(ls_broadcast(group, all, TOTAL, LS_F32, 0));
    CHECK(memcmp(all, weights, TOTAL * sizeof(float)) == 0);
    free(all);
}

static void play_strategies(ls_group *group, void *unused)
{
    static const double buckets[] = {INFINITY, 0.0003};
    float first[TOTAL], out[TOTAL];
    bool has_first = false;
    (void)unused;
    for (int s = 1; s <= LS_DDP_STRATEGY_COUNT; s++) {
        ls_ddp_options how = LS_DDP_OPTIONS_INIT;
        how.strategy = (ls_ddp_strategy)s;
        const bool limited =
            how.strategy == LS_DDP_BUCKETED || how.strategy >= LS_DDP_ZERO1;
        for (size_t f = 0; f < TEST_COUNT(forms); f++) {
            model m;
            how.bucket_bytes = limited ? lsi_bucket_bytes(buckets[f % 2]) : 0;
            make(&m, &forms[f], group);
            train(&m, group, &how, out);
            if (!has_first) {
                memcpy(first, out, sizeof(out));
                check_reference(out, ls_group_size(group));
                check_same_on_all(group, out);
                has_first = true;
            }
            CHECK(memcmp(first, out, sizeof(out)) == 0);
            check_seen(&m, out);
            destroy(&m);
        }
    }
}

static void test_every_strategy_gives_the_same_bits(void **state)
{
    static const int sizes[] = {1, 2, 3, 5, 8};
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(sizes); i++)
        run_threads(sizes[i], play_strategies, NULL);
    run_processes(3, play_strategies, NULL);
}

/* ---- where weights are --------------------------------------------------- */

static void test_weights_are_used_where_they_lie(void **state)
{
    (void)state;
    static const form in_place = {true, LS_F32, LS_F32, false, false};
    static const form halves = {true, LS_BF16, LS_F32, false, false};
    ls_group *group = NULL;
    ls_ddp *ddp = NULL;
    model m;
    size_t count = 0;
    ls_ddp_options how = LS_DDP_OPTIONS_INIT;
    assert_ok(ls_group_open_threads(&group, 1));
    make(&m, &in_place, group);
    assert_null(ls_params_flat(m.params, &count));
    assert_true(count > TOTAL);
    for (size_t p = 0; p < PARAMS; p++)
        assert_true(counts[p] == 0 || values(&m, p) == m.weights[p]);
    assert_ok(ls_ddp_new(&ddp, group, m.params, &how));
    assert_ptr_equal(values(&m, 0), m.weights[0]);
    ls_ddp_free(&ddp);
    how.strategy = LS_DDP_SHARED;
    assert_ok(ls_ddp_new(&ddp, group, m.params, &how));
    assert_non_null(ls_params_flat(m.params, NULL));
    assert_ptr_not_equal(values(&m, 0), m.weights[0]);
    values(&m, 0)[0] = 5; /* as a file would be loaded */
    ls_params_changed(m.params);
    assert_true(((float *)m.weights[0])[0] == 5);
    ls_ddp_free(&ddp);
    destroy(&m);

    make(&m, &halves, group);
    assert_non_null(ls_params_flat(m.params, NULL));
    assert_true(values(&m, 0)[1] == first_value(1));
    destroy(&m);
    ls_group_close(&group);
}

/* ---- checkpoints --------------------------------------------------------- */

static void step_once(model *m, ls_ddp *ddp, ls_optimizer *sgd, int rank)
{
    CHECK_OK(ls_ddp_begin(ddp, weight_of(rank, 0)));
    backward(m, ddp, rank, 0);
    CHECK_OK(ls_ddp_finish(ddp));
    CHECK_OK(ls_optimizer_step(sgd, 1));
}

/* Loaded weights appear in the program's memory. */
static void play_checkpoint(ls_group *group, const form *f,
                            ls_ddp_strategy strategy, const char *folder,
                            int64_t step)
{
    const int rank = ls_group_rank(group);
    ls_ddp_options how = LS_DDP_OPTIONS_INIT;
    how.strategy = strategy;
    model m;
    ls_ddp *ddp = NULL;
    ls_optimizer *sgd = NULL;
    ls_checkpoint *found = NULL;
    float saved[TOTAL], moved = 0;
    make(&m, f, group);
    CHECK_OK(ls_ddp_new(&ddp, group, m.params, &how));
    CHECK_OK(ls_optimizer_new(
        &sgd, m.params,
        &(ls_optimizer_spec){
            .sgd = &(ls_sgd_options){.lr = LR, .momentum = MOMENTUM}}));
    step_once(&m, ddp, sgd, rank);
    for (size_t p = 0; p < PARAMS; p++)
        for (size_t i = 0; i < (size_t)counts[p]; i++)
            saved[start_of(p) + i] = values(&m, p)[i];
    const ls_checkpoint_parts parts = {.params = m.params, .optimizer = sgd};
    CHECK_OK(ls_checkpoint_save(group, folder, step, &parts, 1));
    step_once(&m, ddp, sgd, rank);
    for (size_t i = 0; i < (size_t)counts[0]; i++)
        moved += fabsf(values(&m, 0)[i] - saved[i]);
    CHECK(moved > 0);
    CHECK_OK(ls_checkpoint_open(&found, group, folder));
    CHECK_OK(ls_checkpoint_load(found, m.params, sgd));
    check_seen(&m, saved);
    for (size_t p = 0; p < PARAMS; p++)
        CHECK(memcmp(values(&m, p), saved + start_of(p),
                     (size_t)counts[p] * sizeof(float)) == 0);
    ls_checkpoint_close(&found);
    CHECK_OK(ls_barrier(group));
    ls_optimizer_free(&sgd);
    ls_ddp_free(&ddp);
    destroy(&m);
}

static void play_checkpoints(ls_group *group, void *folder)
{
    static const ls_ddp_strategy some[] = {LS_DDP_FLAT, LS_DDP_OWNERS,
                                           LS_DDP_ZERO1, LS_DDP_FSDP};
    int64_t step = 0;
    for (size_t s = 0; s < TEST_COUNT(some); s++)
        for (size_t f = 1; f < TEST_COUNT(forms); f++)
            play_checkpoint(group, &forms[f], some[s], folder, ++step);
}

static void test_checkpoints(void **state)
{
    char folder[] = "/tmp/lockstep-adopted-XXXXXX", command[64];
    (void)state;
    assert_non_null(mkdtemp(folder));
    /* Ranks that share weights all fill them, with the same bytes. */
    run_processes(3, play_checkpoints, folder);
    snprintf(command, sizeof(command), "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

/* ---- scaled, clipped, unused --------------------------------------------- */

static void play_scaled(ls_group *group, void *unused)
{
    static const form f = {true, LS_F32, LS_F32, true, false};
    const int rank = ls_group_rank(group), size = ls_group_size(group);
    model m;
    ls_ddp *ddp = NULL;
    ls_ddp_options how = LS_DDP_OPTIONS_INIT;
    (void)unused;
    how.unused_as_zero = true;
    make(&m, &f, group);
    CHECK_OK(ls_ddp_new(&ddp, group, m.params, &how));
    CHECK_OK(ls_ddp_set_loss_scale(ddp, 64));
    CHECK_OK(ls_ddp_begin(ddp, 2));
    for (size_t p = 0; p < PARAMS; p++) {
        for (size_t i = 0; i < (size_t)counts[p]; i++)
            ((float *)m.grads[p])[i] = 2 * 64 * (float)(i % 5);
        if (p != FROZEN && (p != 4 || rank == 0)) /* rank 0 alone has "c" */
            CHECK_OK(ls_ddp_ready(ddp, p));
    }
    CHECK_OK(ls_ddp_finish(ddp));
    for (size_t p = 0; p < PARAMS; p++)
        for (size_t i = 0; p != FROZEN && i < (size_t)counts[p]; i++) {
            const double want = (double)(i % 5) / (p == 4 ? size : 1);
            CHECK(fabs((double)((float *)m.grads[p])[i] - want) <=
                  4 * 0x1p-24 * want);
        }
    ls_ddp_free(&ddp);
    destroy(&m);
}

static void test_scaled_losses_and_unused_parameters(void **state)
{
    (void)state;
    run_threads(3, play_scaled, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_strategy_gives_the_same_bits),
        cmocka_unit_test(test_weights_are_used_where_they_lie),
        cmocka_unit_test(test_checkpoints),
        cmocka_unit_test(test_scaled_losses_and_unused_parameters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * Ranks with different numbers of batches, of which one has none. They end
 * together, with the weights of one process that has seen all samples. This
 * holds with normalisation over all ranks, with accumulated micro-steps, and
 * with divided weights and state.
 */
#include "testing.h"

#include <math.h>

#include "base/rng.h"
#include "lockstep/nn.h"
#include "lockstep/optim.h"
#include "lockstep/parallel.h"
#include "model/parallel/ddp.h"
#include "model/parallel/strategy.h"
#include "unit/comm/ranks.h"
#include "weights.h"

enum { IN = 5, WIDE = 8, OUT = 3, ROUNDS = 3, ACCUMULATE = 2, MAX_ROWS = 64 };

/* Rank 0 never has a batch; the last one has in each round. */
static int rows_of(int rank, int size, int round)
{
    const int batches = size == 1 ? ROUNDS : rank * ROUNDS / (size - 1);
    return round < batches ? 1 + (rank + 2 * round) % 4 : 0;
}

static int all_rows(int size, int round)
{
    int rows = 0;
    for (int r = 0; r < size; r++)
        rows += rows_of(r, size, round);
    return rows;
}

typedef struct model {
    ls_params *params;
    ls_linear_layer in, out;
    ls_batch_norm_layer alone;
    ls_sync_bn *together;
    ls_tape *tape;
    ls_optimizer *optimizer;
} model;

/* The settings of the ranks, and the weights of rank 0 at the end. */
typedef struct plan {
    ls_ddp_strategy strategy;
    double bucket_mb;
    ls_sync_bn_kind kind;
    bool adamw;
    float weights[256];
    size_t count;
} plan;

static void add_layers(model *m, ls_group *group, ls_sync_bn_kind kind)
{
    const ls_sync_bn_options options = {.kind = kind, .momentum = 0.1};
    CHECK_OK(ls_params_new(&m->params));
    CHECK_OK(ls_linear_layer_init(&m->in, m->params, "in", IN, WIDE,
                                  LS_LAYER_DEFAULT));
    if (group != NULL)
        CHECK_OK(ls_sync_bn_new(&m->together, group, m->params, "norm", WIDE,
                                &options));
    else
        CHECK_OK(ls_batch_norm_layer_init(&m->alone, m->params, "norm", WIDE,
                                          LS_LAYER_DEFAULT));
    CHECK_OK(ls_linear_layer_init(&m->out, m->params, "out", WIDE, OUT,
                                  LS_LAYER_DEFAULT));
    CHECK_OK(ls_params_allocate(m->params, group, 1));
    CHECK_OK(ls_tape_new(&m->tape));
}

static void make_optimizer(model *m, bool adamw)
{
    const ls_sgd_options sgd = {.lr = 0.1, .momentum = 0.5};
    if (adamw)
        CHECK_OK(ls_optimizer_new(&m->optimizer, m->params, NULL));
    else
        CHECK_OK(ls_optimizer_new(&m->optimizer, m->params,
                                  &(ls_optimizer_spec){.sgd = &sgd}));
}

static void destroy(model *m)
{
    ls_optimizer_free(&m->optimizer);
    ls_tape_free(&m->tape);
    ls_sync_bn_free(&m->together);
    ls_params_free(&m->params);
}

/* Rows first..first + rows - 1 of those of all ranks in a round. */
static ls_tensor *numbers(const model *m, uint64_t stream, int first, int rows,
                          int64_t columns)
{
    const lsi_rng_key key = {5, stream};
    const int64_t shape[2] = {rows, columns};
    ls_tensor *const tensor = ls_tape_output(m->tape, LS_F32, 2, shape);
    CHECK(tensor != NULL);
    float *const data = tensor_data(tensor);
    for (int64_t i = 0; i < rows * columns; i++)
        data[i] =
            (float)lsi_rng_normal(key, (uint64_t)(first * columns + i), 0);
    return tensor;
}

static ls_tensor *loss_of(const model *m, int round, int first, int rows)
{
    const uint64_t stream = 2 * (uint64_t)round;
    ls_tensor *const y = numbers(m, stream + 1, first, rows, OUT);
    ls_tensor *x = numbers(m, stream, first, rows, IN);
    x = ls_linear_layer_forward(&m->in, m->tape, x);
    x = m->together != NULL
            ? ls_sync_bn_forward(m->together, m->tape, x, NULL)
            : ls_batch_norm_layer_forward(&m->alone, m->tape, x);
    x = ls_linear_layer_forward(&m->out, m->tape, ls_relu(m->tape, x));
    return ls_mse_loss(m->tape, x, y);
}

/* ---- one process alone --------------------------------------------------- */

static void step_alone(const model *m, double weight)
{
    CHECK_OK(ls_optimizer_step(m->optimizer, 1 / weight));
    ls_params_zero_grad(m->params);
}

/* On the samples of `size` ranks. */
static void train_alone(const model *m, int size)
{
    double weight = 0;
    ls_params_zero_grad(m->params);
    for (int round = 0; round < ROUNDS; round++) {
        const int rows = all_rows(size, round);
        CHECK_OK(ls_backward(m->tape, loss_of(m, round, 0, rows), rows));
        ls_tape_reset(m->tape);
        weight += rows;
        if ((round + 1) % ACCUMULATE == 0) {
            step_alone(m, weight);
            weight = 0;
        }
    }
    if (weight > 0)
        step_alone(m, weight);
}

/* ---- ranks --------------------------------------------------------------- */

static void step_together(const model *m)
{
    CHECK_OK(ls_optimizer_step(m->optimizer, 1));
    ls_params_zero_grad(m->params);
}

/* Sums over the samples of a step, of a rank. */
typedef struct sums {
    double loss, weight;
} sums;

static void add_loss(sums *s, const ls_tensor *loss, int rows)
{
    double mean = 0;
    if (rows == 0)
        return;
    CHECK_OK(ls_tensor_item(loss, &mean));
    s->loss += mean * rows;
    s->weight += rows;
}

/* The loss that came with the gradients is that of all ranks' samples. */
static void check_loss(const ls_ddp *ddp, ls_group *group, sums *s)
{
    CHECK_OK(ls_all_reduce(group, s, s, 2, LS_F64, LS_REDUCE_SUM));
    const double mean = s->loss / s->weight;
    CHECK(fabs(lsi_ddp_loss(ddp) - mean) <= 1e-6 * mean);
    *s = (sums){0};
}

/* As long as anybody has a batch; micro-steps that are left make a step. */
static void train_together(const model *m, ls_ddp *ddp, ls_group *group)
{
    const int rank = ls_group_rank(group), size = ls_group_size(group);
    int round = 0;
    sums s = {0};
    ls_params_zero_grad(m->params);
    for (;; round++) {
        int first = 0;
        bool more;
        for (int r = 0; r < rank; r++)
            first += rows_of(r, size, round);
        const int rows = rows_of(rank, size, round);
        CHECK_OK(ls_ddp_join(ddp, rows > 0, &more));
        if (!more)
            break;
        const bool sync = (round + 1) % ACCUMULATE == 0;
        /* The model has collectives: an empty batch takes part in them. */
        ls_tensor *const loss = loss_of(m, round, first, rows);
        add_loss(&s, loss, rows);
        CHECK_OK(sync ? ls_ddp_backward(ddp, m->tape, loss, rows)
                      : ls_ddp_accumulate(ddp, m->tape, loss, rows));
        ls_tape_reset(m->tape);
        if (sync) {
            check_loss(ddp, group, &s);
            step_together(m);
        }
    }
    CHECK(round == ROUNDS);
    CHECK_OK(ls_ddp_backward(ddp, m->tape, NULL, 0));
    check_loss(ddp, group, &s);
    step_together(m);
}

static void keep_weights(plan *p, const model *m)
{
    p->count = copy_weights(m->params, p->weights, TEST_COUNT(p->weights));
    CHECK(p->count > 0);
}

static void play(ls_group *group, void *opaque)
{
    plan *const p = opaque;
    model m = {0};
    ls_ddp *ddp = NULL;
    ls_ddp_options options = LS_DDP_OPTIONS_INIT;
    options.strategy = p->strategy;
    options.bucket_bytes = lsi_bucket_bytes(p->bucket_mb);
    add_layers(&m, group, p->kind);
    CHECK_OK(ls_ddp_new(&ddp, group, m.params, &options));
    make_optimizer(&m, p->adamw);
    train_together(&m, ddp, group);
    if (ls_group_rank(group) == 0)
        keep_weights(p, &m);
    ls_ddp_free(&ddp);
    destroy(&m);
}

/* ---- tests --------------------------------------------------------------- */

/*
 * Sums of up to 30 rows of terms of size about 1 are rounded otherwise by one
 * process, and normalisation divides by deviations of about 0.5: some 30 eps.
 */
static void compare_alone(const plan *p, int size)
{
    model m = {0};
    float flat[TEST_COUNT(p->weights)];
    add_layers(&m, NULL, p->kind);
    make_optimizer(&m, p->adamw);
    train_alone(&m, size);
    const size_t count = copy_weights(m.params, flat, TEST_COUNT(flat));
    assert_int_equal(count, p->count);
    for (size_t i = 0; i < count; i++)
        assert_true(fabs((double)flat[i] - (double)p->weights[i]) <=
                    32 * 0x1p-23);
    destroy(&m);
}

static void play_strategies(int size, ls_sync_bn_kind kind, bool adamw)
{
    size_t n;
    const lsi_strategy *const all = lsi_strategies(&n);
    plan first = {LS_DDP_NAIVE, INFINITY, kind, adamw, {0}, 0};
    run_threads(size, play, &first);
    if (!adamw)
        compare_alone(&first, size);
    for (size_t i = 1; i < n; i++) {
        const bool limited = all[i].buckets == LSI_BUCKETS_LIMIT;
        plan other = first;
        other.strategy = all[i].id;
        other.bucket_mb = limited ? 0.0002 : INFINITY;
        run_threads(size, play, &other);
        assert_memory_equal(other.weights, first.weights, sizeof first.weights);
    }
}

static void test_ranks_end_together(void **state)
{
    static const int sizes[] = {1, 2, 3, 5};
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
        play_strategies(sizes[i], LS_SYNC_BN_FUSED, false);
        play_strategies(sizes[i], LS_SYNC_BN_GATHERED, true);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks_end_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Synchronised batch normalisation against sums in double over all rows. */
#include "testing.h"

#include <math.h>
#include <stdio.h>

#include "lockstep/nn.h"
#include "lockstep/profile.h"
#include "sync_bn_case.h"
#include "unit/comm/ranks.h"

static const double report_tolerance = 1e-3;

static void compare(const bn_run *run)
{
    const bn_case *const test = run->test;
    const double worst = bn_worst(run, ~0U);
    const double bound = bn_bound(test);
    if (!(worst <= bound) || (test->offset == 0 && bound > report_tolerance))
        fail_msg("kind %d, %d ranks, %d features, rows %d.., loss %d: off by "
                 "%g, bound %g",
                 test->kind, test->ranks, test->features, test->rows[0],
                 test->loss, worst, bound);
    for (int f = 0; f < test->features; f++) {
        assert_true(fabs(run->expected.running_mean[f] -
                         run->got.running_mean[f]) <= bound);
        assert_true(
            fabs(run->expected.running_var[f] - run->got.running_var[f]) <=
            bound * run->expected.running_var[f]);
    }
    for (int r = 0; r < test->ranks; r++) {
        assert_int_equal(run->forward_collectives[r], 1);
        assert_int_equal(run->backward_collectives[r], 1);
        assert_memory_equal(run->running[r], run->running[0],
                            sizeof(run->running[0]));
    }
}

static void check(const bn_case *test)
{
    bn_run run;
    bn_prepare(&run, test);
    run_threads(test->ranks, bn_play, &run);
    compare(&run);
    bn_release(&run);
}

static void check_kinds_and_losses(bn_case test)
{
    for (int kind = LS_SYNC_BN_FUSED; kind <= LS_SYNC_BN_GATHERED; kind++)
        for (int loss = BN_HALF_OF_EACH; loss <= BN_WEIGHTED; loss++) {
            test.kind = (ls_sync_bn_kind)kind;
            test.loss = (bn_loss)loss;
            check(&test);
        }
}

/* The table of the report: workers x features x batch. */
static void test_report_cases(void **state)
{
    (void)state;
    static const int workers[] = {1, 4}, features[] = {128, 256, 512, 1024};
    static const int batches[] = {32, 64};
    for (size_t w = 0; w < TEST_COUNT(workers); w++)
        for (size_t f = 0; f < TEST_COUNT(features); f++)
            for (size_t b = 0; b < TEST_COUNT(batches); b++)
                check_kinds_and_losses((bn_case){
                    .ranks = workers[w],
                    .rows = {batches[b], batches[b], batches[b], batches[b]},
                    .features = features[f]});
}

static void test_unequal_batches(void **state)
{
    (void)state;
    check_kinds_and_losses(
        (bn_case){.ranks = 3, .rows = {5, 3, 8}, .features = 37});
    check_kinds_and_losses(
        (bn_case){.ranks = 3, .rows = {4, 0, 2}, .features = 128});
    check_kinds_and_losses(
        (bn_case){.ranks = 2, .rows = {0, 7}, .features = 1});
    check_kinds_and_losses((bn_case){
        .ranks = 8, .rows = {1, 2, 3, 4, 5, 6, 7, 8}, .features = 19});
}

static void test_affine(void **state)
{
    (void)state;
    check_kinds_and_losses((bn_case){
        .ranks = 3, .rows = {5, 0, 8}, .features = 33, .affine = true});
    check_kinds_and_losses(
        (bn_case){.ranks = 1, .rows = {16}, .features = 64, .affine = true});
}

/* A rank's rows in several parts, some of them empty. */
static void test_slices(void **state)
{
    (void)state;
    for (int slices = 2; slices <= 4; slices++)
        check_kinds_and_losses((bn_case){.ranks = 3,
                                         .rows = {5, 0, 8},
                                         .features = 33,
                                         .affine = true,
                                         .slices = slices});
}

/* In single precision, E[x^2] - E[x]^2 would leave nothing of the variance. */
static void test_large_mean(void **state)
{
    (void)state;
    check_kinds_and_losses((bn_case){
        .ranks = 4, .rows = {32, 32, 17, 32}, .features = 40, .offset = 1e4});
}

static void check_few_rows(int first, int second)
{
    for (int kind = LS_SYNC_BN_FUSED; kind <= LS_SYNC_BN_GATHERED; kind++) {
        const bn_case test = {.kind = (ls_sync_bn_kind)kind,
                              .ranks = 2,
                              .rows = {first, second},
                              .features = 5,
                              .loss = BN_WEIGHTED};
        bn_run run;
        bn_prepare(&run, &test);
        run_threads(2, bn_play, &run);
        for (int f = 0; f < test.features; f++) {
            assert_true(run.got.running_var[f] == 1.0);
            assert_true(fabs(run.got.running_mean[f] -
                             run.expected.running_mean[f]) <= 1e-6);
            if (first + second == 1)
                assert_true(run.got.y[f] == 0.0 && run.got.dx[f] == 0.0);
        }
        bn_release(&run);
    }
}

static void test_fewer_than_two_rows(void **state)
{
    (void)state;
    check_few_rows(0, 0);
    check_few_rows(1, 0);
    check_few_rows(0, 1);
}

/* The kth batch; its running statistics take small steps to far away. */
static void fill_batch(ls_tensor *x, int k)
{
    float *const data = tensor_data(x);
    for (int64_t i = 0; i < ls_tensor_count(x); i++)
        data[i] = (float)(1000 + (i * 7 + k * 13) % 31) / 3;
}

/*
 * On one rank, with a number of rows whose reciprocal is exact, both layers see
 * the same statistics: then the running ones are the same to the bit.
 */
static void test_running_statistics_are_one_code(void **state)
{
    (void)state;
    enum { ROWS = 8, COLS = 5, STEPS = 200 };
    const ls_sync_bn_options options = {
        .kind = LS_SYNC_BN_FUSED, .momentum = 0.01, .no_affine = true};
    ls_group *group;
    ls_params *params;
    ls_sync_bn *bn;
    ls_batch_norm_layer layer;
    ls_tape *tape;
    ls_tensor *x;
    assert_ok(ls_group_open_threads(&group, 1));
    assert_ok(ls_params_new(&params));
    assert_ok(ls_sync_bn_new(&bn, group, params, "all", COLS, &options));
    assert_ok(ls_batch_norm_layer_init(&layer, params, "one", COLS,
                                       LS_LAYER_NO_AFFINE));
    layer.args.momentum = options.momentum;
    assert_ok(ls_params_allocate(params, group, 0));
    assert_ok(ls_tape_new(&tape));
    assert_ok(ls_tensor_new(&x, LS_F32, 2, (int64_t[]){ROWS, COLS}));
    for (int k = 0; k < STEPS; k++) {
        fill_batch(x, k);
        assert_non_null(ls_sync_bn_forward(bn, tape, x, NULL));
        assert_non_null(ls_batch_norm_layer_forward(&layer, tape, x));
        ls_tape_reset(tape);
        for (size_t i = 0; i < 2; i++)
            assert_memory_equal(tensor_data(ls_params_buffer(params, i)),
                                tensor_data(ls_params_buffer(params, i + 2)),
                                COLS * sizeof(float));
    }
    ls_tensor_free(&x);
    ls_tape_free(&tape);
    ls_sync_bn_free(&bn);
    ls_params_free(&params);
    ls_group_close(&group);
}

/* ---- one rank at a time -------------------------------------------------- */

typedef struct fixture {
    ls_params *params;
    ls_sync_bn *bn;
    ls_tape *tape;
    ls_tensor *x;
} fixture;

static fixture make(ls_group *group, int64_t rows, ls_sync_bn_options options)
{
    fixture f = {0};
    const int64_t shape[2] = {rows, 6};
    CHECK_OK(ls_params_new(&f.params));
    CHECK_OK(ls_sync_bn_new(&f.bn, group, f.params, "bn", 6, &options));
    CHECK_OK(ls_params_allocate(f.params, group, 0));
    CHECK_OK(ls_tape_new(&f.tape));
    CHECK_OK(ls_tensor_new(&f.x, LS_F32, 2, shape));
    float *const x = tensor_data(f.x);
    for (int64_t i = 0; i < ls_tensor_count(f.x); i++)
        x[i] = (float)((i * 7 + ls_group_rank(group) * 5) % 11);
    return f;
}

static void destroy(fixture *f)
{
    ls_tensor_free(&f->x);
    ls_tape_free(&f->tape);
    ls_sync_bn_free(&f->bn);
    ls_params_free(&f->params);
}

static uint64_t collectives(const ls_group *group)
{
    ls_group_counters counters;
    ls_group_get_counters(group, &counters);
    return counters.collectives;
}

/* y = (x - running mean) / sqrt(running variance + eps), and nothing else. */
static void play_evaluation(ls_group *group, void *unused)
{
    (void)unused;
    const ls_sync_bn_options options = {.kind = LS_SYNC_BN_FUSED,
                                        .eps = 0.25,
                                        .no_affine = true,
                                        .momentum = 0.1};
    fixture f = make(group, 3, options);
    float *const mean = tensor_data(ls_params_buffer(f.params, 0));
    float *const variance = tensor_data(ls_params_buffer(f.params, 1));
    for (int i = 0; i < 6; i++) {
        mean[i] = (float)i;
        variance[i] = (float)(i + 1);
    }
    ls_tape_set_training(f.tape, false);
    const uint64_t before = collectives(group);
    const ls_tensor *const out = ls_sync_bn_forward(f.bn, f.tape, f.x, NULL);
    CHECK(out != NULL);
    CHECK(collectives(group) == before);
    const float *const y = tensor_data(out);
    const float *const x = tensor_data(f.x);
    for (int i = 0; i < 18; i++) {
        const double expected = ((double)x[i] - i % 6) / sqrt(i % 6 + 1 + 0.25);
        CHECK(fabs((double)y[i] - expected) <= 4 * 0x1p-23 * fabs(expected));
        CHECK(mean[i % 6] == (float)(i % 6));
        CHECK(variance[i % 6] == (float)(i % 6 + 1));
    }
    destroy(&f);
}

static void test_evaluation_is_local(void **state)
{
    (void)state;
    run_threads(2, play_evaluation, NULL);
}

/* Of a matrix, max(norm(x) - x, 0) where norm(x) is another layer's. */
static void play_residual(ls_group *group, void *training)
{
    ls_sync_bn_options options = {.no_affine = true, .momentum = 0.1};
    fixture plain = make(group, 4, options);
    options.relu = true;
    fixture whole = make(group, 4, options);
    ls_tape_set_training(plain.tape, *(bool *)training);
    ls_tape_set_training(whole.tape, *(bool *)training);
    const ls_tensor *const norm =
        ls_sync_bn_forward(plain.bn, plain.tape, plain.x, NULL);
    ls_tensor *const negative = ls_neg(whole.tape, whole.x);
    const ls_tensor *const sum =
        ls_sync_bn_forward(whole.bn, whole.tape, whole.x, negative);
    CHECK(norm != NULL && sum != NULL);
    const float *const n = tensor_data(norm), *const y = tensor_data(sum);
    const float *const x = tensor_data(whole.x);
    for (int i = 0; i < 24; i++) {
        const double expected = fmax((double)n[i] - (double)x[i], 0);
        CHECK(fabs((double)y[i] - expected) <= 16 * 0x1p-23);
    }
    destroy(&plain);
    destroy(&whole);
}

static void test_residual_and_relu(void **state)
{
    bool training[] = {true, false};
    (void)state;
    run_threads(2, play_residual, &training[0]);
    run_threads(2, play_residual, &training[1]);
}

/* Gradients of two uses of the layer on one tape are kept apart. */
static void play_twice(ls_group *group, void *kind)
{
    const ls_sync_bn_options options = {
        .kind = *(ls_sync_bn_kind *)kind, .no_affine = true, .momentum = 0.1};
    fixture f = make(group, 4, options);
    double sums[6] = {0};
    CHECK_OK(ls_tape_watch(f.tape, f.x));
    ls_tensor *const y = ls_sync_bn_forward(f.bn, f.tape, f.x, NULL);
    ls_tensor *const z =
        ls_sync_bn_forward(f.bn, f.tape, ls_mul(f.tape, y, y), NULL);
    CHECK_OK(ls_backward(f.tape, ls_sum(f.tape, ls_mul(f.tape, z, f.x)), 1));
    /* Moving a whole column does not change its normalised values. */
    const float *const dx = tensor_data(ls_tape_grad(f.tape, f.x));
    const float *const direct = tensor_data(z);
    for (int i = 0; i < 24; i++)
        sums[i % 6] += (double)dx[i] - (double)direct[i];
    CHECK_OK(ls_all_reduce(group, sums, sums, 6, LS_F64, LS_REDUCE_SUM));
    for (int c = 0; c < 6; c++)
        CHECK(fabs(sums[c]) < 1e-4);
    destroy(&f);
}

static void test_used_twice(void **state)
{
    (void)state;
    for (int kind = LS_SYNC_BN_FUSED; kind <= LS_SYNC_BN_GATHERED; kind++) {
        ls_sync_bn_kind argument = (ls_sync_bn_kind)kind;
        run_threads(2, play_twice, &argument);
    }
}

/* A step that repeats allocates nothing after the first. */
static void play_steady(ls_group *group, void *unused)
{
    (void)unused;
    const ls_sync_bn_options options = {
        .kind = LS_SYNC_BN_FUSED, .no_affine = true, .momentum = 0.1};
    fixture f = make(group, 4, options);
    ls_memory_stats before = {0}, after;
    for (int step = 0; step < 8; step++) {
        CHECK_OK(ls_tape_watch(f.tape, f.x));
        ls_tensor *const y = ls_sync_bn_forward(f.bn, f.tape, f.x, NULL);
        CHECK_OK(ls_backward(f.tape, ls_sum(f.tape, y), 1));
        ls_tape_reset(f.tape);
        if (step == 2)
            ls_memory_total(&before);
    }
    ls_memory_total(&after);
    CHECK(after.allocated == before.allocated);
    destroy(&f);
}

static void test_steady_state_allocates_nothing(void **state)
{
    (void)state;
    run_threads(1, play_steady, NULL);
}

/* A view with gaps gives what its dense copy gives. */
static void play_gaps(ls_group *group, void *unused)
{
    (void)unused;
    const ls_sync_bn_options options = {
        .kind = LS_SYNC_BN_FUSED, .no_affine = true, .momentum = 0.1};
    fixture f = make(group, 6, options);
    const int64_t shape[2] = {6, 6};
    ls_tensor *across, *copy;
    CHECK_OK(ls_tensor_transpose(f.x, 0, 1, &across));
    CHECK_OK(ls_tensor_new(&copy, LS_F32, 2, shape));
    CHECK_OK(ls_tensor_copy(copy, across));
    CHECK_OK(ls_tape_watch(f.tape, across));
    CHECK_OK(ls_tape_watch(f.tape, copy));
    ls_tensor *const a = ls_sync_bn_forward(f.bn, f.tape, across, NULL);
    ls_tensor *const b = ls_sync_bn_forward(f.bn, f.tape, copy, NULL);
    CHECK(a != NULL && b != NULL);
    CHECK(memcmp(tensor_data(a), tensor_data(b), 36 * 4) == 0);
    ls_tensor *const squares =
        ls_add(f.tape, ls_mul(f.tape, ls_mul(f.tape, a, a), a),
               ls_mul(f.tape, ls_mul(f.tape, b, b), b));
    CHECK_OK(ls_backward(f.tape, ls_sum(f.tape, squares), 1));
    CHECK(memcmp(tensor_data(ls_tape_grad(f.tape, across)),
                 tensor_data(ls_tape_grad(f.tape, copy)), 36 * 4) == 0);
    ls_tensor_free(&across);
    ls_tensor_free(&copy);
    destroy(&f);
}

static void test_views_with_gaps(void **state)
{
    (void)state;
    run_threads(2, play_gaps, NULL);
}

static void test_bad_arguments(void **state)
{
    (void)state;
    ls_group *group;
    ls_params *params;
    ls_sync_bn *bn = NULL;
    const ls_sync_bn_options good = {
        .kind = LS_SYNC_BN_FUSED, .no_affine = true, .momentum = 0.1};
    assert_ok(ls_group_open_threads(&group, 1));
    assert_ok(ls_params_new(&params));
    assert_error(ls_sync_bn_new(&bn, group, params, "bn", 0, &good),
                 LS_ERR_ARGUMENT, "features is 0");
    assert_error(ls_sync_bn_new(&bn, group, params, "bn", 4,
                                &(ls_sync_bn_options){.kind = 7}),
                 LS_ERR_ARGUMENT, "kind 7");
    assert_error(ls_sync_bn_new(&bn, group, params, "bn", 4,
                                &(ls_sync_bn_options){.momentum = 2}),
                 LS_ERR_ARGUMENT, "momentum is 2");
    assert_error(ls_sync_bn_new(&bn, NULL, params, "bn", 4, &good),
                 LS_ERR_ARGUMENT, "group");
    assert_null(bn);
    ls_params_free(&params);

    fixture f = make(group, 3, good);
    ls_tensor *wrong;
    assert_ok(ls_tensor_zeros(&wrong, LS_F32, 2, (int64_t[]){6, 3}));
    assert_null(ls_sync_bn_forward(f.bn, f.tape, wrong, NULL));
    assert_int_equal(ls_tape_status(f.tape), LS_ERR_SHAPE);
    assert_null(ls_sync_bn_forward(f.bn, f.tape, f.x, NULL)); /* it sticks */
    ls_tape_reset(f.tape);
    ls_tensor_free(&wrong);
    assert_ok(ls_tensor_zeros(&wrong, LS_I64, 2, (int64_t[]){3, 6}));
    assert_null(ls_sync_bn_forward(f.bn, f.tape, wrong, NULL));
    assert_int_equal(ls_tape_status(f.tape), LS_ERR_DTYPE);
    ls_tape_reset(f.tape);
    ls_tensor_free(&wrong);
    assert_ok(ls_tensor_zeros(&wrong, LS_F32, 2, (int64_t[]){1, 6}));
    for (int training = 0; training < 2; training++) {
        ls_tape_set_training(f.tape, training == 1);
        assert_null(ls_sync_bn_forward(f.bn, f.tape, f.x, wrong));
        assert_int_equal(ls_tape_status(f.tape), LS_ERR_SHAPE);
        ls_tape_reset(f.tape);
    }
    ls_tensor_free(&wrong);

    ls_tensor *without_memory;
    assert_ok(ls_params_new(&params));
    assert_ok(ls_params_add(params, "x", 2, (int64_t[]){3, 6},
                            (ls_init){LS_INIT_CONSTANT, 0, 0},
                            &without_memory));
    assert_null(ls_sync_bn_forward(f.bn, f.tape, without_memory, NULL));
    assert_int_equal(ls_tape_status(f.tape), LS_ERR_STATE);
    ls_params_free(&params);
    destroy(&f);
    ls_group_close(&group);
}

/* ---- processes ---------------------------------------------------------- */

/* Each process sees its own results only. */
static void play_and_check(ls_group *group, void *opaque)
{
    bn_run *const run = opaque;
    const int rank = ls_group_rank(group);
    bn_play(group, run);
    CHECK(bn_worst(run, 1U << rank) <= bn_bound(run->test));
    CHECK(run->forward_collectives[rank] == 1);
    CHECK(run->backward_collectives[rank] == 1);
}

static void test_processes(void **state)
{
    (void)state;
    for (int kind = LS_SYNC_BN_FUSED; kind <= LS_SYNC_BN_GATHERED; kind++) {
        const bn_case test = {.kind = (ls_sync_bn_kind)kind,
                              .ranks = 4,
                              .rows = {32, 32, 32, 32},
                              .features = 1024,
                              .loss = BN_HALF_OF_TOTAL};
        bn_run run;
        bn_prepare(&run, &test);
        run_processes(test.ranks, play_and_check, &run);
        bn_release(&run);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_processes),
        cmocka_unit_test(test_report_cases),
        cmocka_unit_test(test_unequal_batches),
        cmocka_unit_test(test_affine),
        cmocka_unit_test(test_slices),
        cmocka_unit_test(test_large_mean),
        cmocka_unit_test(test_fewer_than_two_rows),
        cmocka_unit_test(test_running_statistics_are_one_code),
        cmocka_unit_test(test_evaluation_is_local),
        cmocka_unit_test(test_residual_and_relu),
        cmocka_unit_test(test_used_twice),
        cmocka_unit_test(test_steady_state_allocates_nothing),
        cmocka_unit_test(test_views_with_gaps),
        cmocka_unit_test(test_bad_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

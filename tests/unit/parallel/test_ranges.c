/*
 * Data parallelism over ranges of memory, against sums of exact integers: in
 * any order of readiness, shared or private, whatever the buckets.
 */
#include "testing.h"

#include <math.h>
#include <stdlib.h>

#include "lockstep/parallel.h"
#include "model/parallel/strategy.h"
#include "unit/comm/ranks.h"

enum { RANGES = 5, TOTAL = 16 + 3 + 0 + 4000 + 129, ROUNDS = 6 };

static const size_t counts[RANGES] = {16, 3, 0, 4000, 129};

static const ls_ddp_strategy strategies[] = {LS_DDP_NAIVE, LS_DDP_FLAT,
                                             LS_DDP_OVERLAP, LS_DDP_BUCKETED};

/* Sums over a rank's samples: whole numbers, which add up exactly. */
static float value(int rank, int round, size_t i)
{
    return (float)((int)(i % 97) + rank * 3 - round * 5);
}

/* Rank 1 has no samples in every other round. */
static int weight_of(int rank, int round)
{
    return rank == 1 && round % 2 == 1 ? 0 : rank + 1;
}

static void fill(float *data, const ls_group *group, int round)
{
    const int rank = ls_group_rank(group);
    const bool has = weight_of(rank, round) > 0;
    for (size_t i = 0; i < TOTAL; i++)
        data[i] = has ? value(rank, round, i) : NAN; /* never read */
}

static void check_means(const float *data, int size, int round)
{
    int weight = 0;
    for (int r = 0; r < size; r++)
        weight += weight_of(r, round);
    for (size_t i = 0; i < TOTAL; i++) {
        double sum = 0;
        for (int r = 0; r < size; r++)
            if (weight_of(r, round) > 0)
                sum += (double)value(r, round, i);
        CHECK(fabs((double)data[i] - sum / weight) <=
              2 * 0x1p-24 * fabs(sum / weight));
    }
}

/* The order differs between ranks and rounds. */
static void announce(ls_ddp *ddp, int rank, int round)
{
    for (int i = 0; i < RANGES; i++)
        CHECK_OK(ls_ddp_ready(ddp, (size_t)((i * 3 + rank + round) % RANGES)));
}

static void play_rounds(ls_group *group, float *data, ls_ddp_strategy strategy,
                        double bucket_mb)
{
    ls_ddp *ddp = NULL;
    ls_ddp_range ranges[RANGES];
    ls_ddp_options options = LS_DDP_OPTIONS_INIT;
    options.strategy = strategy;
    options.bucket_bytes = lsi_bucket_bytes(bucket_mb);
    for (size_t i = 0, at = 0; i < RANGES; at += counts[i++])
        ranges[i] = (ls_ddp_range){data + at, counts[i]};
    CHECK_OK(ls_ddp_new_ranges(&ddp, group, ranges, RANGES, &options));
    for (int round = 0; round < ROUNDS; round++) {
        const int rank = ls_group_rank(group);
        const int weight = weight_of(rank, round);
        fill(data, group, round);
        CHECK_OK(ls_ddp_begin(ddp, weight));
        if (weight > 0)
            announce(ddp, rank, round);
        CHECK_OK(ls_ddp_finish(ddp));
        check_means(data, ls_group_size(group), round);
    }
    ls_ddp_free(&ddp);
}

static void play(ls_group *group, void *unused)
{
    (void)unused;
    void *shared;
    float *const own = malloc(TOTAL * sizeof(float));
    CHECK(own != NULL);
    CHECK_OK(ls_shared_alloc(group, TOTAL * sizeof(float), &shared));
    for (size_t s = 0; s < TEST_COUNT(strategies); s++) {
        play_rounds(group, own, strategies[s], INFINITY);
        play_rounds(group, shared, strategies[s], INFINITY);
    }
    play_rounds(group, own, LS_DDP_BUCKETED, 0.0006);
    play_rounds(group, shared, LS_DDP_BUCKETED, 0.0006);
    CHECK_OK(ls_shared_free(group, &shared));
    free(own);
}

static void test_means(void **state)
{
    static const int sizes[] = {1, 2, 3, 5, 8};
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(sizes); i++)
        run_threads(sizes[i], play, NULL);
    run_processes(3, play, NULL);
}

/* ---- what is refused ----------------------------------------------------- */

static void play_missing(ls_group *group, void *unused)
{
    (void)unused;
    float x[4] = {1, 2, 3, 4};
    const ls_ddp_range ranges[] = {{x, 1}, {x + 1, 3}, {NULL, 0}};
    ls_ddp_options options = LS_DDP_OPTIONS_INIT;
    const int rank = ls_group_rank(group);
    ls_ddp *ddp = NULL;
    options.strategy = LS_DDP_OVERLAP;
    CHECK_OK(ls_ddp_new_ranges(&ddp, group, ranges, 3, &options));
    CHECK_OK(ls_ddp_begin(ddp, 1));
    CHECK_OK(ls_ddp_ready(ddp, 0));
    for (size_t i = 1; rank != 1 && i < 3; i++)
        CHECK_OK(ls_ddp_ready(ddp, i));
    CHECK(ls_ddp_finish(ddp) == LS_ERR_STATE);
    CHECK(strstr(ls_last_error(), "rank 1: range 1, range 2)") != NULL);
    ls_ddp_free(&ddp);
}

static void test_a_missing_range_is_named(void **state)
{
    (void)state;
    run_threads(3, play_missing, NULL);
}

static void test_bad_arguments(void **state)
{
    (void)state;
    ls_group *group;
    float x[4] = {0};
    const ls_ddp_range range = {x, 4}, null = {NULL, 4};
    const ls_ddp_options options = LS_DDP_OPTIONS_INIT;
    ls_ddp *ddp = NULL;
    assert_ok(ls_group_open_threads(&group, 1));
    assert_error(ls_ddp_new_ranges(&ddp, group, NULL, 1, &options),
                 LS_ERR_ARGUMENT, "ranges");
    assert_error(ls_ddp_new_ranges(&ddp, group, &null, 1, &options),
                 LS_ERR_ARGUMENT, "range 0 is NULL");
    assert_null(ddp);
    ls_ddp_options dividing = options;
    dividing.strategy = LS_DDP_ZERO1;
    assert_error(ls_ddp_new_ranges(&ddp, group, &range, 1, &dividing),
                 LS_ERR_ARGUMENT,
                 "strategy 'zero1' shards optimizer state or weights");
    assert_null(ddp);
    assert_ok(ls_ddp_new_ranges(&ddp, group, &range, 1, &options));
    assert_error(ls_ddp_ready(ddp, 0), LS_ERR_STATE, "no reduction has begun");
    assert_error(ls_ddp_finish(ddp), LS_ERR_STATE, "ls_ddp_begin");
    for (int i = 0; i < 2; i++) { /* each is heard of at the end, too */
        const double weight = i == 0 ? -1 : NAN;
        assert_error(ls_ddp_begin(ddp, weight), LS_ERR_ARGUMENT, "weight");
        assert_error(ls_ddp_finish(ddp), LS_ERR_ARGUMENT, "weight");
    }
    assert_ok(ls_ddp_begin(ddp, 1));
    assert_error(ls_ddp_ready(ddp, 1), LS_ERR_ARGUMENT,
                 "range 1 does not exist; ranges in the ls_ddp: 1");
    assert_error(ls_ddp_finish(ddp), LS_ERR_ARGUMENT,
                 "range 1 does not exist; ranges in the ls_ddp: 1");
    assert_ok(ls_ddp_begin(ddp, 1));
    assert_ok(ls_ddp_ready(ddp, 0));
    assert_error(ls_ddp_begin(ddp, 1), LS_ERR_STATE,
                 "previous gradient reduction is not finished");
    assert_error(ls_ddp_ready(ddp, 0), LS_ERR_STATE,
                 "'range 0' was reported ready twice");
    assert_error(ls_ddp_finish(ddp), LS_ERR_STATE, "ready twice");
    assert_ok(ls_ddp_begin(ddp, 1));
    assert_ok(ls_ddp_ready(ddp, 0));
    assert_ok(ls_ddp_finish(ddp));
    ls_tape *tape;
    assert_ok(ls_tape_new(&tape));
    assert_error(ls_ddp_backward(ddp, tape, NULL, 0), LS_ERR_ARGUMENT,
                 "no parameter set");
    ls_tape_free(&tape);
    ls_ddp_free(&ddp);
    ls_group_close(&group);
}

/* ---- ranks with different numbers of batches ----------------------------- */

static void play_join(ls_group *group, void *unused)
{
    (void)unused;
    const int rank = ls_group_rank(group);
    float x[1] = {0};
    const ls_ddp_range range = {x, 1};
    const ls_ddp_options options = LS_DDP_OPTIONS_INIT;
    ls_ddp *ddp = NULL;
    bool more = true;
    int steps = 0;
    CHECK_OK(ls_ddp_new_ranges(&ddp, group, &range, 1, &options));
    for (;; steps++) {
        const bool have = steps < rank * 2; /* none on rank 0 */
        CHECK_OK(ls_ddp_join(ddp, have, &more));
        if (!more)
            break;
        x[0] = (float)rank;
        CHECK_OK(ls_ddp_begin(ddp, have));
        if (have)
            CHECK_OK(ls_ddp_ready(ddp, 0));
        CHECK_OK(ls_ddp_finish(ddp));
        const float expected[] = {1.5F, 1.5F, 2, 2};
        CHECK(x[0] == expected[steps]);
    }
    CHECK(steps == 4);
    ls_ddp_free(&ddp);
}

static void test_ranks_end_together(void **state)
{
    (void)state;
    run_threads(3, play_join, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_means),
        cmocka_unit_test(test_a_missing_range_is_named),
        cmocka_unit_test(test_bad_arguments),
        cmocka_unit_test(test_ranks_end_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

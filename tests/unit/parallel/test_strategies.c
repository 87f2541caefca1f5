/*
 * Every strategy trains the toy models as one process alone does: the same
 * weights after each step, on 2 and 4 ranks, time and again.
 */
#include "testing.h"

#include <math.h>

#include "model/parallel/strategy.h"
#include "toy.h"
#include "unit/comm/ranks.h"

/* The whole product instead of a part of it: with the argument "whole". */
static bool whole;

enum { STEPS = 5, MORE_STEPS = 10, REPEATS = 5, MAX_WAYS = 32 };

typedef struct way {
    ls_ddp_options options;
    bool tied, adamw;
} way;

static ls_optimizer *make_optimizer(const way *w, const toy *t)
{
    ls_optimizer *optimizer = NULL;
    ls_adamw_options adamw = LS_ADAMW_OPTIONS_INIT;
    adamw.lr = 0.1;
    adamw.weight_decay = 0.1;
    if (w->adamw)
        CHECK_OK(ls_optimizer_new(&optimizer, t->params,
                                  &(ls_optimizer_spec){.adamw = &adamw}));
    else
        CHECK_OK(ls_optimizer_new(
            &optimizer, t->params,
            &(ls_optimizer_spec){.sgd = &(ls_sgd_options){.lr = 0.1}}));
    return optimizer;
}

static const double bucket_sizes[] = {0.0016, 0.0001, 0.01, INFINITY};

/* All strategies, with all bucket sizes. Returns how many. */
static size_t list_ways(way *out)
{
    size_t n, count = 0;
    const lsi_strategy *const all = lsi_strategies(&n);
    for (size_t s = 0; s < n; s++) {
        for (size_t b = 0; b < TEST_COUNT(bucket_sizes); b++) {
            const bool limited = all[s].buckets == LSI_BUCKETS_LIMIT;
            if (!limited && !isinf(bucket_sizes[b]))
                continue;
            out[count].options = (ls_ddp_options)LS_DDP_OPTIONS_INIT;
            out[count].options.strategy = all[s].id;
            out[count++].options.bucket_bytes =
                lsi_bucket_bytes(bucket_sizes[b]);
        }
    }
    CHECK(count > 0 && count <= MAX_WAYS);
    return count;
}

/* The step of a single process with all rows. */
static void alone_step(toy *t, ls_optimizer *optimizer, int step)
{
    ls_params_zero_grad(t->params);
    CHECK_OK(ls_backward(t->tape, toy_loss(t, step, 0, TOY_ROWS), 1));
    CHECK_OK(ls_optimizer_step(optimizer, 1));
    ls_tape_reset(t->tape);
}

static void together_step(toy *t, ls_ddp *ddp, ls_optimizer *optimizer,
                          ls_group *group, int step)
{
    const int rows = TOY_ROWS / ls_group_size(group);
    const int begin = ls_group_rank(group) * rows;
    ls_params_zero_grad(t->params);
    CHECK_OK(ls_ddp_backward(ddp, t->tape,
                             toy_loss(t, step, begin, begin + rows), rows));
    CHECK_OK(ls_optimizer_step(optimizer, 1));
    ls_tape_reset(t->tape);
}

static void play_one(ls_group *group, const way *w)
{
    toy alone, together;
    ls_ddp *ddp = NULL;
    ls_optimizer *own = NULL, *shared = NULL;
    toy_make(&alone, w->tied, NULL, 0);
    /* Other ranks begin with other weights, and must come to rank 0's. */
    toy_make(&together, w->tied, group, (uint64_t)ls_group_rank(group));
    CHECK_OK(ls_ddp_new(&ddp, group, together.params, &w->options));
    CHECK(toy_same(&together, &alone));
    own = make_optimizer(w, &alone);
    shared = make_optimizer(w, &together);
    for (int step = 0; step < STEPS; step++) {
        alone_step(&alone, own, step);
        together_step(&together, ddp, shared, group, step);
        /*
         * AdamW divides by the size of gradients: where those of samples
         * nearly cancel, a rounding is a visible part of its step of 0.1.
         */
        CHECK(toy_close(&together, &alone, w->adamw ? 1e-4 : 1e-8));
    }
    ls_optimizer_free(&own);
    ls_optimizer_free(&shared);
    ls_ddp_free(&ddp);
    toy_destroy(&together);
    toy_destroy(&alone);
}

enum { KINDS = 4 }; /* two models, two optimizers */

/* Every way, five times over with another kind, or once; or with all kinds. */
static void play_all(ls_group *group, void *once)
{
    way ways[MAX_WAYS];
    const size_t n = list_ways(ways);
    const size_t repeats = once == NULL ? REPEATS : 1;
    for (size_t i = 0; i < n * repeats * KINDS; i++) {
        const size_t kind = i % KINDS, turn = i / KINDS;
        way w = ways[turn % n];
        w.tied = kind % 2 == 1;
        w.adamw = kind / 2 == 1;
        if (whole || kind == (turn % n + turn / n) % KINDS)
            play_one(group, &w);
    }
}

static void test_as_one_process(void **state)
{
    (void)state;
    bool once = true;
    run_processes(2, play_all, &once);
    run_threads(2, play_all, NULL);
    run_threads(4, play_all, NULL);
}

/* ---- the same bits ------------------------------------------------------- */

typedef struct outcome {
    way how;
    float flat[1024]; /* the trained weights of rank 0 at the end */
    uint64_t collectives;
} outcome;

static uint64_t collectives(const ls_group *group)
{
    ls_group_counters counters;
    ls_group_get_counters(group, &counters);
    return counters.collectives;
}

/* Shares of other sizes on each rank, none on one, in micro-steps. */
static void uneven_step(toy *t, ls_ddp *ddp, const ls_group *group, int step)
{
    static const int bounds[] = {0, 3, 10, 10, TOY_ROWS};
    const int rank = ls_group_rank(group);
    ls_params_zero_grad(t->params);
    for (int micro = 0; micro < 2; micro++) {
        const int begin = bounds[rank], end = bounds[rank + 1];
        ls_tensor *const loss =
            end > begin ? toy_loss(t, step + micro, begin, end) : NULL;
        CHECK_OK(micro == 1
                     ? ls_ddp_backward(ddp, t->tape, loss, end - begin)
                     : ls_ddp_accumulate(ddp, t->tape, loss, end - begin));
        ls_tape_reset(t->tape);
    }
}

static void play_uneven(ls_group *group, void *opaque)
{
    outcome *const o = opaque;
    toy t;
    ls_ddp *ddp = NULL;
    ls_optimizer *optimizer = NULL;
    ls_clip *clip = NULL;
    toy_make(&t, true, group, 1);
    CHECK_OK(ls_ddp_new(&ddp, group, t.params, &o->how.options));
    optimizer = make_optimizer(&o->how, &t);
    CHECK_OK(ls_clip_new(&clip, t.params, 1e-3));
    bool clipped = false;
    double norm = 0;
    for (int step = 0; step < MORE_STEPS; step++) {
        const uint64_t before = collectives(group);
        uneven_step(&t, ddp, group, step);
        if (ls_group_rank(group) == 0)
            o->collectives = collectives(group) - before;
        double scale = 1;
        CHECK_OK(ls_clip_grad(clip, &scale, &norm, NULL));
        clipped |= scale < 1;
        CHECK_OK(ls_optimizer_step(optimizer, scale));
    }
    CHECK(clipped);
    if (ls_group_rank(group) == 0)
        for (size_t i = 0, at = 0; i < ls_params_count(t.params); i++) {
            const ls_tensor *const p = ls_params_get(t.params, i);
            const size_t n = (size_t)ls_tensor_count(p);
            if (at + n <= TEST_COUNT(o->flat))
                memcpy(o->flat + at, tensor_data(p), n * sizeof(float));
            at += n;
        }
    ls_clip_free(&clip);
    ls_optimizer_free(&optimizer);
    ls_ddp_free(&ddp);
    toy_destroy(&t);
}

/*
 * fc1, fc2, fc3, out: 400, 2000, 2000, 1000 bytes; from the end, at most 1600
 * of them make 1000 | 2000 | 2000 | 400, at most 10,000 one bucket.
 */
static uint64_t expected_collectives(const ls_ddp_options *options)
{
    const lsi_strategy *strategy;
    assert_ok(lsi_strategy_find(options->strategy, &strategy));
    /* The weight of the samples goes with the last bucket, if all have it. */
    const uint64_t alone = strategy->share >= LSI_SHARE_STATE;
    if (strategy->buckets == LSI_BUCKETS_ONE)
        return 1;
    if (strategy->buckets == LSI_BUCKETS_LIMIT &&
        lsi_bucket_mb(options->bucket_bytes) >= 0.01)
        return 1 + alone;
    return 4 + alone;
}

static void check_same_bits(bool adamw)
{
    way ways[MAX_WAYS];
    const size_t n = list_ways(ways);
    static outcome first, other;
    for (size_t i = 0; i < n; i++) {
        outcome *const o = i == 0 ? &first : &other;
        o->how = ways[i];
        o->how.adamw = adamw;
        run_threads(4, play_uneven, o);
        assert_memory_equal(o->flat, first.flat, sizeof(first.flat));
        assert_int_equal(o->collectives, expected_collectives(&o->how.options));
    }
}

static void test_same_bits_and_counts(void **state)
{
    (void)state;
    check_same_bits(false);
    check_same_bits(true);
}

int main(int argc, char **argv)
{
    whole = argc > 1 && strcmp(argv[1], "whole") == 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_one_process),
        cmocka_unit_test(test_same_bits_and_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

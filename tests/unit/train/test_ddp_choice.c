/*
 * Which strategies may be chosen, what is remembered of it and what is said.
 */
#include "testing.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "train/ddp_choice.h"
#include "unit/comm/ranks.h"

enum { RANKS = 3, P = 1000000, BUCKETS = 2 * 510000 * RANKS };

static lsi_ddp_choice of(bool automatic, double bucket_mb, int ranks)
{
    ls_ddp_options options = LS_DDP_OPTIONS_INIT;
    options.strategy = LS_DDP_OWNERS;
    options.bucket_bytes = lsi_bucket_bytes(bucket_mb);
    return lsi_ddp_choice_of(&options, automatic, P, ranks);
}

static void candidates(void **state)
{
    (void)state;
    lsi_ddp_choice c = of(false, INFINITY, 2);
    assert_int_equal(c.reason, LSI_DDP_NAMED);
    assert_int_equal(c.options.strategy, LS_DDP_OWNERS);
    c = of(true, 3, 1);
    assert_int_equal(c.reason, LSI_DDP_ALONE);
    assert_int_equal(c.options.strategy, LS_DDP_FLAT);
    assert_int_equal(c.options.bucket_bytes, 0);
    c = of(true, INFINITY, 2);
    assert_int_equal(c.n, LSI_DDP_CANDIDATES);
    for (size_t i = 0; i < c.n; i++) {
        const lsi_strategy *strategy;
        uint64_t bytes;
        assert_ok(lsi_strategy_of(&c.all[i].options, 1, &strategy, &bytes));
        /* sqrt(4e6 * 13e9 * 5e-6) = 5.099e5 */
        if (strategy->buckets == LSI_BUCKETS_LIMIT)
            assert_int_equal(c.all[i].options.bucket_bytes, 510000);
    }
    c = of(true, 7, 2);
    assert_int_equal(c.all[1].options.bucket_bytes, 7000000);
}

static lsi_ddp_choice asked(ls_group *group, int64_t budget)
{
    lsi_ddp_choice c = of(true, INFINITY, RANKS);
    const lsi_memory_plan plan = {.parameters = P, .moments = 2};
    CHECK_OK(lsi_ddp_choice_ask(&c, group, plan, budget));
    return c;
}

/*
 * As docs/concepts/parallel.md counts: 48 MB, 32 MB, 24 MB, and for fsdp 16 MB
 * and two buckets a rank.
 */
static void play_room(ls_group *group, void *unused)
{
    char text[LSI_DDP_CHOICE_TEXT];
    (void)unused;
    lsi_ddp_choice c = asked(group, 48 * P);
    CHECK(c.all[0].fits && c.all[1].fits && c.all[2].fits && c.all[3].fits);
    c = asked(group, 48 * P - 1);
    CHECK(!c.all[0].fits && !c.all[1].fits && c.all[2].fits && c.all[4].fits);
    CHECK(c.reason == LSI_DDP_MEASURED);
    c.all[2].seconds = 0.25;
    c.all[3].seconds = 0.0125;
    c.all[4].seconds = 0.5;
    lsi_ddp_choice_settle(&c);
    lsi_ddp_choice_describe(&c, text);
    CHECK(strcmp(text,
                 "strategy: shared --bucket-mb 0.51 (auto; 3 measured: "
                 "zero1 250 ms, shared 12.50 ms, fsdp 500 ms; the fastest two "
                 "are 1900.0% apart; not enough memory for flat, bucketed)") ==
          0);
    CHECK(strcmp(lsi_ddp_choice_value_of(&c, 3).text, "shared 0.51 3") == 0);
    c = asked(group, 16 * P + BUCKETS);
    CHECK(c.reason == LSI_DDP_ONLY && c.options.strategy == LS_DDP_FSDP);
    lsi_ddp_choice_describe(&c, text);
    CHECK(
        strstr(
            text,
            "fsdp --bucket-mb 0.51 (auto; no other strategy fits in memory)") !=
        NULL);
    c = of(true, INFINITY, RANKS);
    const lsi_memory_plan plan = {.parameters = P, .moments = 2};
    CHECK(lsi_ddp_choice_ask(&c, group, plan, 16 * P + BUCKETS - 1) ==
          LS_ERR_MEMORY);
    CHECK(strstr(ls_last_error(),
                 "weights, gradients and optimizer state do not fit "
                 "into memory: the ranks on one machine need at least "
                 "18.2 MiB, but only 18.2 MiB are available") != NULL);
}

/* The fastest two, of medians and shortest steps by hand. */
static void how_close(void **state)
{
    (void)state;
    char text[LSI_DDP_CHOICE_TEXT];
    size_t best[2] = {9, 9};
    double slow[] = {0.5}, flat[] = {0.13, 0.1, 0.12};
    double zero1[] = {0.104, 0.107, 0.105, 0.106}, again[] = {0.101, 0.102};
    lsi_ddp_choice c = of(true, INFINITY, 2);
    for (size_t i = 0; i < c.n; i++)
        c.all[i].fits = true;
    assert_false(lsi_ddp_choice_is_close(&c, best));
    lsi_ddp_choice_add(&c.all[2], zero1, 4);
    assert_false(lsi_ddp_choice_is_close(&c, best));
    assert_true(fabs(c.all[2].seconds - 0.104) < 1e-12);
    assert_true(fabs(c.all[2].spread - 0.002) < 1e-12);
    lsi_ddp_choice_add(&c.all[1], slow, 1);
    assert_false(lsi_ddp_choice_is_close(&c, best));
    assert_true(best[0] == 2 && best[1] == 1);
    lsi_ddp_choice_add(&c.all[0], flat, 3);
    assert_true(lsi_ddp_choice_is_close(&c, best));
    assert_true(best[0] == 0 && best[1] == 2);
    lsi_ddp_choice_settle(&c);
    assert_int_equal(c.options.strategy, LS_DDP_FLAT);
    lsi_ddp_choice_describe(&c, text);
    assert_non_null(strstr(text, "; the fastest two are 4.0% apart, less than "
                                 "the variation between steps)"));
    /* Of a second time the shortest step and the smaller spread count. */
    flat[0] = 0.0901;
    flat[1] = 0.0902;
    flat[2] = 0.09;
    lsi_ddp_choice_add(&c.all[0], flat, 3);
    lsi_ddp_choice_add(&c.all[2], again, 2);
    assert_true(fabs(c.all[2].seconds - 0.101) < 1e-12);
    assert_false(lsi_ddp_choice_is_close(&c, best));
    lsi_ddp_choice_describe(&c, text);
    assert_non_null(strstr(text, "; the fastest two are 12.2% apart, measured "
                                 "twice)"));
}

static void room(void **state)
{
    (void)state;
    run_threads(RANKS, play_room, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(candidates),
        cmocka_unit_test(how_close),
        cmocka_unit_test(room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

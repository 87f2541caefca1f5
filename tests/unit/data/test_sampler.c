/* The sampler, exhaustively for small numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "lockstep/data.h"

enum { MAX_SIZE = 8, MAX_COUNT = 50 };

/* The order in which all ranks together go through an epoch. */
static int64_t join(ls_sampler s, int64_t *all)
{
    int64_t total = 0;
    for (s.rank = 0; s.rank < s.size; s.rank++) {
        int64_t part[MAX_COUNT + 1];
        const int64_t n = ls_sampler_count(&s);
        assert_in_range(n, 0, MAX_COUNT);
        assert_int_equal(ls_sampler_fill(&s, part), LS_OK);
        for (int64_t i = 0; i < n; i++)
            all[i * s.size + s.rank] = part[i];
        total += n;
    }
    return total;
}

static void check_unpadded(const ls_sampler *s)
{
    int64_t all[MAX_COUNT + MAX_SIZE];
    int seen[MAX_COUNT] = {0};
    assert_int_equal(join(*s, all), s->count);
    for (int64_t i = 0; i < s->count; i++) {
        assert_in_range(all[i], 0, s->count - 1);
        seen[all[i]]++;
    }
    for (int64_t i = 0; i < s->count; i++)
        assert_int_equal(seen[i], 1);
}

static void check_padded(const ls_sampler *s)
{
    int64_t all[MAX_COUNT + MAX_SIZE], unpadded[MAX_COUNT + MAX_SIZE];
    ls_sampler plain = *s;
    plain.pad = false;
    join(plain, unpadded);
    const int64_t total = join(*s, all);
    assert_int_equal(total, (s->count + s->size - 1) / s->size * s->size);
    for (int64_t i = 0; i < total; i++)
        assert_int_equal(all[i], unpadded[i % s->count]);
}

static void test_shards_are_disjoint_and_complete(void **state)
{
    (void)state;
    for (int size = 1; size <= MAX_SIZE; size++) {
        for (int64_t count = 0; count <= MAX_COUNT; count++) {
            for (int shuffle = 0; shuffle <= 1; shuffle++) {
                ls_sampler s = {.count = count,
                                .seed = 3,
                                .epoch = (uint64_t)count,
                                .size = size,
                                .shuffle = shuffle == 1};
                check_unpadded(&s);
                s.pad = true;
                check_padded(&s);
            }
        }
    }
}

/* However many ranks there are, together they go through the same order. */
static void test_order_does_not_depend_on_size(void **state)
{
    (void)state;
    for (int64_t count = 0; count <= MAX_COUNT; count++) {
        ls_sampler s = {.count = count, .seed = 9, .size = 1, .shuffle = true};
        int64_t alone[MAX_COUNT + MAX_SIZE], all[MAX_COUNT + MAX_SIZE];
        join(s, alone);
        for (s.size = 2; s.size <= MAX_SIZE; s.size++) {
            join(s, all);
            assert_memory_equal(all, alone, (size_t)count * sizeof *all);
        }
    }
}

static void test_without_shuffle_the_order_is_plain(void **state)
{
    (void)state;
    const ls_sampler s = {.count = 10, .rank = 1, .size = 3, .pad = true};
    const int64_t expected[] = {1, 4, 7, 0};
    int64_t indices[4];
    assert_int_equal(ls_sampler_count(&s), 4);
    assert_int_equal(ls_sampler_fill(&s, indices), LS_OK);
    assert_memory_equal(indices, expected, sizeof expected);
}

static void test_order_is_a_function_of_seed_and_epoch(void **state)
{
    (void)state;
    enum { N = 50 };
    int64_t first[N], again[N], other[N];
    ls_sampler s = {
        .count = N, .seed = 1, .epoch = 5, .size = 1, .shuffle = true};
    assert_int_equal(ls_sampler_fill(&s, first), LS_OK);
    assert_int_equal(ls_sampler_fill(&s, again), LS_OK);
    assert_memory_equal(first, again, sizeof first);
    s.epoch = 6;
    assert_int_equal(ls_sampler_fill(&s, other), LS_OK);
    assert_true(memcmp(first, other, sizeof first) != 0);
    s.epoch = 5;
    s.seed = 2;
    assert_int_equal(ls_sampler_fill(&s, other), LS_OK);
    assert_true(memcmp(first, other, sizeof first) != 0);
}

/* The place of an order of 4 among the 24. */
static int rank_of_order(const int64_t order[4])
{
    int rank = 0;
    for (int i = 0; i < 4; i++) {
        int smaller = 0;
        for (int j = i + 1; j < 4; j++)
            smaller += order[j] < order[i];
        rank = rank * (4 - i) + smaller;
    }
    return rank;
}

/*
 * All 24 orders of 4 are equally likely: chi squared with 23 degrees of freedom
 * exceeds 70 once in a million.
 */
static void test_orders_are_uniform(void **state)
{
    (void)state;
    enum { EACH = 400 };
    int hits[24] = {0};
    ls_sampler s = {.count = 4, .seed = 77, .size = 1, .shuffle = true};
    for (s.epoch = 0; s.epoch < 24 * EACH; s.epoch++) {
        int64_t order[4];
        assert_int_equal(ls_sampler_fill(&s, order), LS_OK);
        hits[rank_of_order(order)]++;
    }
    double chi_squared = 0;
    for (int i = 0; i < 24; i++)
        chi_squared += (hits[i] - EACH) * (double)(hits[i] - EACH) / EACH;
    assert_true(chi_squared < 70);
}

static void test_bad_numbers_are_errors(void **state)
{
    (void)state;
    const ls_sampler bad[] = {
        {.count = -1, .size = 1},
        {.count = 5, .size = 0},
        {.count = 5, .size = -2},
        {.count = 5, .size = 2, .rank = 2},
        {.count = 5, .size = 2, .rank = -1},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        int64_t untouched = 42;
        assert_int_equal(ls_sampler_count(&bad[i]), 0);
        assert_int_equal(ls_sampler_fill(&bad[i], &untouched), LS_ERR_ARGUMENT);
        assert_int_equal(untouched, 42);
        assert_non_null(strstr(ls_last_error(), "0 <= rank < size"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shards_are_disjoint_and_complete),
        cmocka_unit_test(test_order_does_not_depend_on_size),
        cmocka_unit_test(test_without_shuffle_the_order_is_plain),
        cmocka_unit_test(test_order_is_a_function_of_seed_and_epoch),
        cmocka_unit_test(test_orders_are_uniform),
        cmocka_unit_test(test_bad_numbers_are_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * Random numbers: the generator against published vectors, the views of a
 * stream against their definition and against the distributions they promise.
 */
#include <math.h>

#include "base/rng.h"
#include "testing.h"

/* The key under which Philox's own key is `seed`: stream 0 adds nothing. */
static lsi_rng_key plain_key(uint64_t seed)
{
    return (lsi_rng_key){.seed = seed, .stream = 0};
}

/* The vectors for philox4x32-10 that Random123 is released with. */
static void known_answers(void **state)
{
    (void)state;
    static const struct {
        uint64_t key, block, sub;
        uint32_t want[4];
    } cases[] = {
        {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {UINT64_MAX,
         UINT64_MAX,
         UINT64_MAX,
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {0x299f31d0a4093822,
         0x85a308d3243f6a88,
         0x0370734413198a2e,
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        uint32_t got[4];
        lsi_rng_block(plain_key(cases[i].key), cases[i].block, cases[i].sub,
                      got);
        assert_memory_equal(got, cases[i].want, sizeof(got));
    }
}

/* Stored models and tests of other layers depend on these never changing. */
static void key_mixing_is_fixed(void **state)
{
    (void)state;
    assert_int_equal(lsi_rng_philox_key((lsi_rng_key){7, 0}), 7);
    /* splitmix64's output function on 1, plus the seed */
    assert_int_equal(lsi_rng_philox_key((lsi_rng_key){0, 1}),
                     0x5692161d100b05e5);
    assert_int_equal(lsi_rng_philox_key((lsi_rng_key){5, 1}),
                     0x5692161d100b05ea);
}

static void u32_is_a_lane_of_its_block(void **state)
{
    (void)state;
    const lsi_rng_key key = {3, 9};
    for (uint64_t i = 0; i < 41; i++) {
        uint32_t block[4];
        lsi_rng_block(key, i / 4, 11, block);
        assert_int_equal(lsi_rng_u32(key, 11, i), block[i % 4]);
    }
}

/* Philox is a bijection of the counter, so all blocks of a key differ. */
static void keys_streams_and_subs_differ(void **state)
{
    (void)state;
    uint32_t blocks[64][4];
    size_t n = 0;
    for (uint64_t seed = 0; seed < 4; seed++)
        for (uint64_t stream = 0; stream < 4; stream++)
            for (uint64_t sub = 0; sub < 4; sub++)
                lsi_rng_block((lsi_rng_key){seed, stream}, 0, sub, blocks[n++]);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++)
            assert_memory_not_equal(blocks[i], blocks[j], sizeof(blocks[i]));
}

static void unit_f32_stays_below_one(void **state)
{
    (void)state;
    assert_true(lsi_rng_unit_f32(0) == 0.0F);
    assert_true(lsi_rng_unit_f32(UINT32_MAX) == 1.0F - 0x1p-24F);
    assert_true(lsi_rng_unit_f32(UINT32_C(1) << 31) == 0.5F);
}

/*
 * Mean and variance of n draws lie within 5 standard errors: once in two
 * million keys this would fail by chance, and the key is fixed.
 */
static void check_moments(double (*draw)(lsi_rng_key, uint64_t, uint64_t),
                          double mean, double variance, double fourth)
{
    enum { N = 100000 };
    double sum = 0, squares = 0;
    for (uint64_t i = 0; i < N; i++) {
        const double x = draw((lsi_rng_key){1, 2}, 3, i);
        sum += x;
        squares += (x - mean) * (x - mean);
    }
    assert_true(fabs(sum / N - mean) < 5 * sqrt(variance / N));
    const double error = sqrt((fourth - variance * variance) / N);
    assert_true(fabs(squares / N - variance) < 5 * error);
}

static void uniform_moments(void **state)
{
    (void)state;
    check_moments(lsi_rng_uniform, 0.5, 1.0 / 12, 1.0 / 80);
    for (uint64_t i = 0; i < 1000; i++) {
        const double x = lsi_rng_uniform(plain_key(4), 0, i);
        assert_true(x >= 0 && x < 1);
        assert_true(x * 0x1p53 == floor(x * 0x1p53));
    }
}

static void normal_moments(void **state)
{
    (void)state;
    check_moments(lsi_rng_normal, 0, 1, 3);
}

/* Neighbours come from one Box-Muller pair and must be independent still. */
static void normal_neighbours_are_uncorrelated(void **state)
{
    (void)state;
    enum { N = 50000 };
    double products = 0;
    for (uint64_t i = 0; i < N; i++)
        products += lsi_rng_normal(plain_key(8), 0, 2 * i) *
                    lsi_rng_normal(plain_key(8), 0, 2 * i + 1);
    assert_true(fabs(products / N) < 5 / sqrt(N));
}

static void normal_tails(void **state)
{
    (void)state;
    enum { N = 100000 };
    int outside = 0;
    for (uint64_t i = 0; i < N; i++)
        outside += fabs(lsi_rng_normal(plain_key(12), 1, i)) > 2;
    const double p = 0.04550026389635842; /* erfc(sqrt 2) */
    assert_true(fabs(outside - N * p) < 5 * sqrt(N * p * (1 - p)));
}

/* Chi-square of small bounds: mean k - 1, variance 2 (k - 1). */
static void below_is_uniform(void **state)
{
    (void)state;
    for (uint64_t bound = 2; bound <= 17; bound++) {
        const int n = 20000;
        int counts[17] = {0};
        for (uint64_t i = 0; i < (uint64_t)n; i++) {
            const uint64_t x = lsi_rng_below(plain_key(6), bound, i, bound);
            assert_true(x < bound);
            counts[x]++;
        }
        const double want = (double)n / (double)bound;
        double chi_square = 0;
        for (uint64_t k = 0; k < bound; k++)
            chi_square += (counts[k] - want) * (counts[k] - want) / want;
        const double freedom = (double)(bound - 1);
        assert_true(chi_square < freedom + 6 * sqrt(2 * freedom) + 6);
    }
}

/* With 2^63 + 1 values half of the draws are rejected; most need a retry. */
static void below_draws_again(void **state)
{
    (void)state;
    enum { N = 20000 };
    const uint64_t bound = (UINT64_C(1) << 63) + 1;
    double sum = 0;
    for (uint64_t i = 0; i < N; i++) {
        const uint64_t x = lsi_rng_below(plain_key(2), 0, i, bound);
        assert_true(x < bound);
        sum += (double)x / (double)bound;
    }
    assert_true(fabs(sum / N - 0.5) < 5 * sqrt(1.0 / 12 / N));
}

static void below_edges(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 100; i++)
        assert_int_equal(lsi_rng_below(plain_key(1), 0, i, 1), 0);
    /* A power of two rejects nothing: the result is the top bits. */
    uint32_t block[4];
    lsi_rng_block(plain_key(1), 5, 0, block);
    assert_int_equal(lsi_rng_below(plain_key(1), 0, 5, UINT64_C(1) << 32),
                     block[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(key_mixing_is_fixed),
        cmocka_unit_test(u32_is_a_lane_of_its_block),
        cmocka_unit_test(keys_streams_and_subs_differ),
        cmocka_unit_test(unit_f32_stays_below_one),
        cmocka_unit_test(uniform_moments),
        cmocka_unit_test(normal_moments),
        cmocka_unit_test(normal_neighbours_are_uncorrelated),
        cmocka_unit_test(normal_tails),
        cmocka_unit_test(below_is_uniform),
        cmocka_unit_test(below_draws_again),
        cmocka_unit_test(below_edges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

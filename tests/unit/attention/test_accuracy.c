/*
 * O, L and the three gradients against float64, both methods, both types.
 */
#include "problem.h"
#include "testing.h"

/* Relative to the largest element of each array. */
#define F32_BOUND  2e-5
#define BF16_BOUND 2e-2

static void check_shape(ls_attention_shape shape, double size)
{
    static const ls_dtype types[] = {LS_F32, LS_BF16};
    for (size_t t = 0; t < TEST_COUNT(types); t++) {
        problem p;
        shape.dtype = types[t];
        problem_new(&p, shape, size, 7);
        problem_solve(&p);
        for (int m = 0; m < LS_ATTENTION_METHOD_COUNT; m++) {
            problem_run(&p, (ls_attention_method)m);
            problem_check(&p, t == 0 ? F32_BOUND : BF16_BOUND);
        }
        problem_free(&p);
    }
}

static void lengths(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 17, 128, 1000};
    for (size_t i = 0; i < TEST_COUNT(sizes); i++)
        for (int causal = 0; causal < 2; causal++)
            check_shape((ls_attention_shape){.batch = 1,
                                             .heads = sizes[i] < 1000 ? 2 : 1,
                                             .queries = sizes[i],
                                             .keys = sizes[i],
                                             .d = 32,
                                             .causal = causal != 0},
                        1.0);
}

/* Lengths on both sides of every tile, panel and vector. */
static void around_tiles(void **state)
{
    (void)state;
    static const int64_t sizes[][2] = {{2, 1},     {1, 130},  {15, 33},
                                       {33, 15},   {64, 127}, {129, 128},
                                       {127, 257}, {257, 129}};
    for (size_t i = 0; i < TEST_COUNT(sizes); i++)
        for (int kind = 0; kind < 4; kind++)
            check_shape((ls_attention_shape){.batch = 1,
                                             .heads = 1,
                                             .queries = sizes[i][0],
                                             .keys = sizes[i][1],
                                             .d = kind < 2 ? 24 : 64,
                                             .causal = kind % 2 != 0},
                        1.0);
}

static void head_sizes(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1,  3,  16, 17,  20,  33,  48,
                                    64, 80, 96, 120, 128, 160, 256};
    for (size_t i = 0; i < TEST_COUNT(sizes); i++)
        check_shape((ls_attention_shape){.batch = 1,
                                         .heads = 1,
                                         .queries = 45,
                                         .keys = 50,
                                         .d = sizes[i],
                                         .causal = i % 2 == 0},
                    1.0);
}

static void grouped_heads(void **state)
{
    (void)state;
    static const int64_t groups[][2] = {{4, 1}, {6, 2}, {3, 3}};
    for (size_t i = 0; i < TEST_COUNT(groups); i++)
        for (int causal = 0; causal < 2; causal++)
            check_shape((ls_attention_shape){.batch = 2,
                                             .heads = groups[i][0],
                                             .kv_heads = groups[i][1],
                                             .queries = 140,
                                             .keys = 131,
                                             .d = 16,
                                             .causal = causal != 0},
                        1.0);
}

/* Scores in the hundreds: a softmax without its maximum would overflow. */
static void large_scores(void **state)
{
    (void)state;
    problem p;
    problem_new(&p,
                (ls_attention_shape){.batch = 1,
                                     .heads = 1,
                                     .queries = 150,
                                     .keys = 150,
                                     .d = 64,
                                     .causal = true},
                12.0, 3);
    problem_solve(&p);
    problem_run(&p, LS_ATTENTION_FLASH);
    /* A score of s carries an error of s * 2^-24 or so into the exponent. */
    problem_check(&p, 2e-4);
    problem_free(&p);
}

/* Four heads of 128 x 64, standard normal: |a - b| <= 1e-2 + 1e-2 |b|. */
static void four_heads(void **state)
{
    (void)state;
    for (int causal = 0; causal < 2; causal++) {
        problem p;
        problem_new(&p,
                    (ls_attention_shape){.batch = 4,
                                         .heads = 1,
                                         .queries = 128,
                                         .keys = 128,
                                         .d = 64,
                                         .causal = causal != 0},
                    1.0, 11);
        problem_solve(&p);
        for (int m = 0; m < LS_ATTENTION_METHOD_COUNT; m++) {
            problem_run(&p, (ls_attention_method)m);
            for (problem_array a = ARRAY_O; a < ARRAY_COUNT; a++)
                for (size_t i = 0; i < p.counts[a]; i++) {
                    const double want = p.exact[a][i];
                    const double off = problem_value(&p, a, i) - want;
                    assert_true((off < 0 ? -off : off) <=
                                1e-2 + 1e-2 * (want < 0 ? -want : want));
                }
        }
        problem_free(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lengths),      cmocka_unit_test(around_tiles),
        cmocka_unit_test(head_sizes),   cmocka_unit_test(grouped_heads),
        cmocka_unit_test(large_scores), cmocka_unit_test(four_heads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * O, L and the three gradients against float64, both methods, both types.
 */
#include <math.h>

#include "problem.h"
#include "testing.h"

/* Of moderate scores; relative to the largest element of each array. */
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

/* ---- large scores ---------------------------------------------------------
 */

/* Of one head: the largest score, and the largest sums of magnitudes. */
typedef struct sizes {
    double score;
    double of[ARRAY_COUNT];
} sizes;

static double dot(const double *x, const double *y, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

/* The probabilities of a query, and |dP| + |D|; returns the largest score. */
static double solve_query(const problem *p, int64_t query, double *prob,
                          double *swing)
{
    const int64_t d = p->shape.d, n = p->shape.keys;
    const double *q = p->exact[ARRAY_Q] + query * d;
    const double *dout = p->exact[ARRAY_DOUT] + query * d;
    double largest = 0, sum = 0, mean = 0;
    const double l = p->l[query];
    for (int64_t j = 0; j < n; j++) {
        const double score =
            dot(q, p->exact[ARRAY_K] + j * d, d) / sqrt((double)d);
        largest = fmax(largest, fabs(score));
        prob[j] = exp(score - l);
        swing[j] = dot(dout, p->exact[ARRAY_V] + j * d, d);
        mean += prob[j] * swing[j];
        sum += prob[j];
    }
    assert_true(fabs(sum - 1) < 1e-9);
    for (int64_t j = 0; j < n; j++)
        swing[j] = fabs(swing[j]) + fabs(mean);
    return largest;
}

/* to += factor * |from|, and the largest of it so far. */
static void add(double *to, double factor, const double *from, int64_t n,
                double *largest)
{
    for (int64_t i = 0; i < n; i++) {
        to[i] += factor * fabs(from[i]);
        *largest = fmax(*largest, to[i]);
    }
}

enum { ROWS = 150, MOST_D = 128 };

static sizes measure(const problem *p)
{
    static double sums[ARRAY_COUNT][ROWS * MOST_D];
    double prob[ROWS], swing[ROWS];
    const int64_t d = p->shape.d;
    const double scale = 1 / sqrt((double)d);
    sizes s = {.score = 0};
    memset(sums, 0, sizeof sums);
    for (int64_t i = 0; i < ROWS; i++) {
        const double *q = p->exact[ARRAY_Q] + i * d;
        const double *dout = p->exact[ARRAY_DOUT] + i * d;
        s.score = fmax(s.score, solve_query(p, i, prob, swing));
        for (int64_t j = 0; j < ROWS; j++) {
            const double ds = scale * prob[j] * swing[j];
            add(sums[ARRAY_O] + i * d, prob[j], p->exact[ARRAY_V] + j * d, d,
                &s.of[ARRAY_O]);
            add(sums[ARRAY_DQ] + i * d, ds, p->exact[ARRAY_K] + j * d, d,
                &s.of[ARRAY_DQ]);
            add(sums[ARRAY_DK] + j * d, ds, q, d, &s.of[ARRAY_DK]);
            add(sums[ARRAY_DV] + j * d, prob[j], dout, d, &s.of[ARRAY_DV]);
        }
    }
    return s;
}

static void expect_within(const problem *p, const sizes *s, double bound)
{
    for (problem_array a = ARRAY_O; a < ARRAY_COUNT; a++)
        for (size_t i = 0; i < p->counts[a]; i++) {
            const double off = fabs(problem_value(p, a, i) - p->exact[a][i]);
            if (!(off <= bound * s->of[a]))
                fail_msg("array %d, element %zu is off by %g, allowed is %g",
                         (int)a, i, off, bound * s->of[a]);
        }
    for (int64_t i = 0; i < ROWS; i++)
        assert_true(fabs((double)p->saved[i] - p->l[i]) <= bound * s->score);
}

/*
 * docs/concepts/attention.md: the exponent of a probability is a score, a sum
 * of d products, less another number as large, times a constant. Its error is
 * that of the probability, relative to it, and so of all sums over them,
 * relative to the sums of their magnitudes.
 */
static void large_scores(void **state)
{
    (void)state;
    static const double inputs[] = {1, 12, 50};
    static const int64_t widths[] = {16, 64, MOST_D};
    for (size_t i = 0; i < 2 * TEST_COUNT(inputs) * TEST_COUNT(widths); i++) {
        problem p;
        const bool half = i % 2 == 1;
        const int64_t d = widths[i / 2 % TEST_COUNT(widths)];
        problem_new(&p,
                    (ls_attention_shape){.batch = 1,
                                         .heads = 1,
                                         .queries = ROWS,
                                         .keys = ROWS,
                                         .d = d,
                                         .dtype = half ? LS_BF16 : LS_F32},
                    inputs[i / 2 / TEST_COUNT(widths)], 3 + i);
        problem_solve(&p);
        const sizes s = measure(&p);
        const double bound = (half ? BF16_BOUND : F32_BOUND) +
                             0x1p-24 * (sqrt((double)d) + 5) * s.score;
        for (int m = 0; m < LS_ATTENTION_METHOD_COUNT; m++) {
            problem_run(&p, (ls_attention_method)m);
            expect_within(&p, &s, bound);
        }
        problem_free(&p);
    }
}

/*
 * Every score is the same number larger. Elements are multiples of 1/8, so that
 * scores of f32 are exact, and softmax and all but the last column of dQ do not
 * change: nor does the bound. Three tiles of keys, whose maxima rise and fall.
 */
static void offset_scores(void **state)
{
    (void)state;
    static const float offsets[] = {0, 100, 8192, 65536, -65536};
    for (size_t i = 0; i < TEST_COUNT(offsets); i++) {
        problem p;
        const ls_attention_shape shape = {.batch = 1,
                                          .heads = 1,
                                          .queries = ROWS,
                                          .keys = 300,
                                          .d = 16,
                                          .scale = 1,
                                          .causal = i % 2 == 1};
        problem_new(&p, shape, 4.0, 5);
        for (problem_array a = ARRAY_Q; a <= ARRAY_K; a++)
            for (size_t at = 0; at < p.counts[a]; at++) {
                float *x = (float *)p.data[a] + at;
                *x = roundf(*x) / 8;
                if (at % 16 == 15)
                    *x = a == ARRAY_Q ? 1 : offsets[i];
                p.exact[a][at] = (double)*x;
            }
        problem_solve(&p);
        for (int m = 0; m < LS_ATTENTION_METHOD_COUNT; m++) {
            problem_run(&p, (ls_attention_method)m);
            for (size_t at = 15; at < p.counts[ARRAY_DQ]; at += 16)
                ((float *)p.data[ARRAY_DQ])[at] = 0, p.exact[ARRAY_DQ][at] = 0;
            problem_check(&p, F32_BOUND);
        }
        problem_free(&p);
    }
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
        cmocka_unit_test(large_scores), cmocka_unit_test(offset_scores),
        cmocka_unit_test(four_heads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * Layouts, missing keys, empty extents, and shapes that are wrong.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "problem.h"
#include "testing.h"

static const ls_attention_shape small = {.batch = 2,
                                         .heads = 4,
                                         .kv_heads = 2,
                                         .queries = 70,
                                         .keys = 50,
                                         .d = 16,
                                         .causal = true};

static double bound_of(ls_dtype dtype)
{
    return dtype == LS_F32 ? 2e-5 : 2e-2;
}

/* (batch, rows, heads, d), with a gap after each row. */
static ls_attention_shape rows_outside(ls_attention_shape s, int64_t gap)
{
    const int64_t q = s.heads * s.d + gap, k = s.kv_heads * s.d + gap;
    s.q_strides = (ls_attention_strides){s.queries * q, s.d, q};
    s.o_strides = s.q_strides;
    s.kv_strides = (ls_attention_strides){s.keys * k, s.d, k};
    return s;
}

static void strided(void **state)
{
    (void)state;
    static const ls_dtype types[] = {LS_F32, LS_BF16};
    static const int64_t sizes[] = {16, 17};
    for (size_t i = 0; i < 8; i++) {
        ls_attention_shape s = small;
        s.dtype = types[i & 1];
        s.d = sizes[i >> 1 & 1];
        s = rows_outside(s, (int64_t)(i >> 2));
        problem p;
        problem_new(&p, s, 1.0, i);
        problem_solve(&p);
        for (int m = 0; m < LS_ATTENTION_METHOD_COUNT; m++) {
            problem_run(&p, (ls_attention_method)m);
            problem_check(&p, bound_of(s.dtype));
        }
        problem_free(&p);
    }
}

/* Memory between strided rows must stay unchanged. */
static void gaps_are_left_alone(void **state)
{
    (void)state;
    problem p;
    problem_new(&p, rows_outside(small, 3), 1.0, 5);
    for (problem_array a = ARRAY_O; a < ARRAY_COUNT; a++)
        memset(p.data[a], 0x5a, p.counts[a] * sizeof(float));
    problem_run(&p, LS_ATTENTION_FLASH);
    for (int64_t b = 0; b < small.batch; b++)
        for (int64_t i = 0; i + 1 < small.queries; i++)
            for (int64_t c = 0; c < 3; c++) {
                uint32_t bits;
                const size_t at =
                    problem_at(&p, ARRAY_O, b, small.heads - 1, i, small.d + c);
                memcpy(&bits, (const float *)p.data[ARRAY_O] + at, 4);
                assert_int_equal(bits, 0x5a5a5a5a);
            }
    problem_free(&p);
}

/* Ragged batches: some keys do not exist, for one batch none does. */
static void key_counts(void **state)
{
    (void)state;
    static const int64_t counts[] = {50, 0, 37, 1};
    static const ls_dtype types[] = {LS_F32, LS_BF16};
    for (size_t i = 0; i < 4; i++) {
        ls_attention_shape s = small;
        s.batch = 4;
        s.key_counts = counts;
        s.causal = i >= 2;
        s.dtype = types[i & 1];
        problem p;
        problem_new(&p, s, 1.0, i);
        problem_solve(&p);
        for (int m = 0; m < LS_ATTENTION_METHOD_COUNT; m++) {
            problem_run(&p, (ls_attention_method)m);
            problem_check(&p, bound_of(s.dtype));
            const size_t hidden = problem_at(&p, ARRAY_O, 1, 0, 0, 0);
            assert_true(problem_value(&p, ARRAY_O, hidden) == 0);
            assert_true(p.saved[s.heads * s.queries] == -FLT_MAX);
        }
        problem_free(&p);
    }
}

static void empty(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        ls_attention_shape s = small;
        s.batch = i == 0 ? 0 : s.batch;
        s.heads = i == 1 ? 0 : s.heads;
        s.kv_heads = i == 1 ? 0 : s.kv_heads;
        s.queries = i == 2 ? 0 : s.queries;
        s.keys = i == 3 ? 0 : s.keys;
        for (int m = 0; m < LS_ATTENTION_METHOD_COUNT; m++) {
            problem p;
            problem_new(&p, s, 1.0, 1);
            for (problem_array a = ARRAY_O; a < ARRAY_COUNT; a++)
                memset(p.data[a], 0x5a, p.counts[a] * sizeof(float));
            problem_run(&p, (ls_attention_method)m);
            for (problem_array a = ARRAY_O; a < ARRAY_COUNT; a++)
                for (size_t j = 0; j < p.counts[a]; j++)
                    assert_true(problem_value(&p, a, j) == 0);
            problem_free(&p);
        }
    }
}

static ls_status saved_bytes(ls_attention_shape s)
{
    size_t bytes;
    return ls_attention_saved_bytes(&s, LS_ATTENTION_NAIVE, &bytes);
}

static void refused(void **state)
{
    (void)state;
    ls_attention_shape s = small;
    s.keys = -1;
    assert_error(saved_bytes(s), LS_ERR_SHAPE, "negative");
    s = small;
    s.d = 0;
    assert_error(saved_bytes(s), LS_ERR_SHAPE, "head size is 0");
    s = small;
    s.kv_heads = 3;
    assert_error(saved_bytes(s), LS_ERR_SHAPE, "multiple");
    s = small;
    s.dtype = LS_F16;
    assert_error(saved_bytes(s), LS_ERR_DTYPE, "dtype is f16");
    s = small;
    s.scale = -1;
    assert_error(saved_bytes(s), LS_ERR_ARGUMENT, "scale is -1");
    s.scale = NAN;
    assert_error(saved_bytes(s), LS_ERR_ARGUMENT, "scale");
    s = small;
    s.q_strides = (ls_attention_strides){1, 1, 15};
    assert_error(saved_bytes(s), LS_ERR_SHAPE, "of q");
    s = small;
    s.batch = INT64_MAX / 4;
    assert_error(saved_bytes(s), LS_ERR_SHAPE, "64 bits");
    s = small;
    s.queries = s.keys = INT64_C(1) << 34;
    assert_error(saved_bytes(s), LS_ERR_SHAPE, "score matrix");
    s = small;
    static const int64_t counts[] = {50, 51};
    s.key_counts = counts;
    assert_error(saved_bytes(s), LS_ERR_ARGUMENT, "key_counts[1] is 51");
    size_t bytes;
    assert_error(
        ls_attention_saved_bytes(&small, (ls_attention_method)2, &bytes),
        LS_ERR_ARGUMENT, "expected a value of ls_attention_method");
}

static void names(void **state)
{
    (void)state;
    assert_string_equal(ls_attention_method_name(LS_ATTENTION_FLASH), "flash");
    assert_string_equal(ls_attention_method_name(LS_ATTENTION_NAIVE), "naive");
    assert_string_equal(ls_attention_method_name((ls_attention_method)-1),
                        "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strided),    cmocka_unit_test(gaps_are_left_alone),
        cmocka_unit_test(key_counts), cmocka_unit_test(empty),
        cmocka_unit_test(refused),    cmocka_unit_test(names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

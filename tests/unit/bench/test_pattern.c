/*
 * The data that collectives are checked with is itself checked: against sums
 * in whole numbers, for few and for many ranks.
 */
#include <math.h>
#include <stdlib.h>

#include "base/half.h"
#include "cli/bench/pattern.h"
#include "testing.h"

enum { COUNT = 2500 }; /* more than two periods */

static double value_at(const void *data, ls_dtype dtype, size_t i)
{
    switch (dtype) {
    case LS_F32:
        return ((const float *)data)[i];
    case LS_F64:
        return ((const double *)data)[i];
    case LS_F16:
        return lsi_f16_to_f32(((const uint16_t *)data)[i]);
    case LS_BF16:
        return lsi_bf16_to_f32(((const uint16_t *)data)[i]);
    case LS_I8:
        return ((const int8_t *)data)[i];
    case LS_U8:
    case LS_BOOL:
        return ((const uint8_t *)data)[i];
    case LS_I32:
        return ((const int32_t *)data)[i];
    default:
        return (double)((const int64_t *)data)[i];
    }
}

static void set_value(void *data, ls_dtype dtype, size_t i, double value)
{
    switch (dtype) {
    case LS_F32:
        ((float *)data)[i] = (float)value;
        break;
    case LS_F64:
        ((double *)data)[i] = value;
        break;
    case LS_F16:
        ((uint16_t *)data)[i] = lsi_f16_from_f32((float)value);
        break;
    case LS_BF16:
        ((uint16_t *)data)[i] = lsi_bf16_from_f32((float)value);
        break;
    case LS_I8:
        ((int8_t *)data)[i] = (int8_t)value;
        break;
    case LS_BOOL:
        ((uint8_t *)data)[i] = value != 0;
        break;
    case LS_U8:
        ((uint8_t *)data)[i] = (uint8_t)value;
        break;
    case LS_I32:
        ((int32_t *)data)[i] = (int32_t)value;
        break;
    default:
        ((int64_t *)data)[i] = (int64_t)value;
    }
}

static double combined(ls_reduce_op op, double a, double b)
{
    if (op == LS_REDUCE_MIN)
        return b < a ? b : a;
    if (op == LS_REDUCE_MAX)
        return b > a ? b : a;
    if (op == LS_REDUCE_BAND)
        return (double)((int)a & (int)b);
    if (op == LS_REDUCE_BOR)
        return (double)((int)a | (int)b);
    if (op == LS_REDUCE_BXOR)
        return (double)((int)a ^ (int)b);
    return op == LS_REDUCE_PROD ? a * b : a + b;
}

/* The reduction of what the ranks are given is what is expected of it. */
static void check_reduction(int ranks, ls_dtype dtype, ls_reduce_op op)
{
    static double reduced[COUNT];
    static char data[COUNT * sizeof(double)];
    lsi_pattern *pattern;
    assert_ok(lsi_pattern_new(&pattern, ranks, dtype, op));
    for (int rank = 0; rank < ranks; rank++) {
        lsi_pattern_fill(pattern, rank, 7, data, COUNT);
        assert_int_equal(lsi_pattern_wrong(pattern, rank, 7, data, COUNT), 0);
        for (size_t i = 0; i < COUNT; i++) {
            const double value = value_at(data, dtype, i);
            reduced[i] = rank == 0 ? value : combined(op, reduced[i], value);
        }
    }
    for (size_t i = 0; i < COUNT; i++) {
        if (op == LS_REDUCE_AVG)
            reduced[i] /= ranks;
        set_value(data, dtype, i, reduced[i]);
        if (op != LS_REDUCE_AVG && dtype != LS_BOOL) /* exact in the type */
            assert_true(value_at(data, dtype, i) == reduced[i]);
    }
    assert_int_equal(lsi_pattern_wrong_reduced(pattern, 7, data, COUNT), 0);
    lsi_pattern_free(&pattern);
    assert_null(pattern);
}

static void reductions(void **state)
{
    (void)state;
    static const int ranks[] = {1, 2, 3, 5, 32, 127, 128, 300};
    for (size_t r = 0; r < TEST_COUNT(ranks); r++) {
        for (int dtype = 0; dtype < LS_DTYPE_COUNT; dtype++) {
            for (int op = 0; op < LS_REDUCE_OP_COUNT; op++) {
                const bool real = dtype <= LS_BF16;
                if (real ? op < LS_REDUCE_BAND : op != LS_REDUCE_AVG)
                    check_reduction(ranks[r], (ls_dtype)dtype,
                                    (ls_reduce_op)op);
            }
        }
    }
}

/* Every single wrong element is counted, wherever it is. */
static void counts_wrong_elements(void **state)
{
    (void)state;
    static float data[COUNT];
    lsi_pattern *pattern;
    assert_ok(lsi_pattern_new(&pattern, 4, LS_F32, LS_REDUCE_SUM));
    for (size_t i = 0; i < COUNT; i += 37) {
        lsi_pattern_fill(pattern, 2, 0, data, COUNT);
        data[i] += 1;
        assert_int_equal(lsi_pattern_wrong(pattern, 2, 0, data, COUNT), 1);
        data[i] = NAN;
        assert_int_equal(lsi_pattern_wrong(pattern, 2, 0, data, COUNT), 1);
    }
    memset(data, 0xee, sizeof(data));
    assert_int_equal(lsi_pattern_wrong(pattern, 2, 0, data, COUNT), COUNT);
    assert_int_equal(lsi_pattern_wrong(pattern, 2, 0, data, 0), 0);
    lsi_pattern_free(&pattern);
}

/* Another rank's data, shifted data or a missing addend are not right. */
static void tells_mistakes_apart(void **state)
{
    (void)state;
    static int32_t data[COUNT];
    lsi_pattern *pattern;
    assert_ok(lsi_pattern_new(&pattern, 3, LS_I32, LS_REDUCE_SUM));
    lsi_pattern_fill(pattern, 1, 0, data, COUNT);
    assert_true(lsi_pattern_wrong(pattern, 0, 0, data, COUNT) > COUNT / 2);
    assert_true(lsi_pattern_wrong(pattern, 1, 1, data, COUNT) > COUNT / 2);
    assert_true(lsi_pattern_wrong(pattern, 1, 64, data, COUNT) > COUNT / 2);
    assert_true(lsi_pattern_wrong_reduced(pattern, 0, data, COUNT) > COUNT / 2);
    lsi_pattern_free(&pattern);
}

/* One unit in the last place of an average is rounding, three are not. */
static void averages_may_be_rounded(void **state)
{
    (void)state;
    static float data[COUNT];
    static float other[COUNT];
    lsi_pattern *pattern;
    assert_ok(lsi_pattern_new(&pattern, 3, LS_F32, LS_REDUCE_AVG));
    memset(other, 0, sizeof(other));
    for (int rank = 0; rank < 3; rank++) {
        lsi_pattern_fill(pattern, rank, 0, data, COUNT);
        for (size_t i = 0; i < COUNT; i++)
            other[i] += data[i];
    }
    for (size_t i = 0; i < COUNT; i++)
        data[i] = nextafterf(other[i] / 3, INFINITY);
    assert_true(lsi_pattern_wrong_reduced(pattern, 0, data, COUNT) < COUNT / 9);
    for (size_t i = 0; i < COUNT; i++)
        data[i] = other[i] / 3 * (1 + 0x1p-20F);
    assert_true(lsi_pattern_wrong_reduced(pattern, 0, data, COUNT) > COUNT / 2);
    lsi_pattern_free(&pattern);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reductions),
        cmocka_unit_test(counts_wrong_elements),
        cmocka_unit_test(tells_mistakes_apart),
        cmocka_unit_test(averages_may_be_rounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

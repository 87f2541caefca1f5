/*
 * Statistics against values worked out by hand.
 */
#include <math.h>

#include "report/stats.h"
#include "testing.h"

static lsi_stats stats_of(const double *values, size_t n)
{
    lsi_stats stats;
    assert_ok(lsi_stats_of(values, n, &stats));
    return stats;
}

static void one_value_is_everything(void **state)
{
    (void)state;
    const double value = 3.5;
    const lsi_stats s = stats_of(&value, 1);
    assert_int_equal(s.n, 1);
    const double same[] = {s.min, s.median, s.mean, s.p99, s.max, s.middle};
    for (size_t i = 0; i < TEST_COUNT(same); i++)
        assert_true(same[i] == 3.5);
    assert_true(s.std == 0);
}

static void unordered_values(void **state)
{
    (void)state;
    const double values[] = {9, 1, 5, 3};
    const lsi_stats s = stats_of(values, 4);
    assert_true(s.min == 1 && s.max == 9);
    assert_true(s.median == 4); /* between 3 and 5 */
    /* A quarter of the way from 1 to 9 in 1, 3, 5, 9: at 0.75 and 2.25. */
    assert_true(s.q1 == 2.5 && s.q3 == 6);
    assert_true(s.mean == 4.5);
    /* squares 20.25 + 12.25 + 0.25 + 2.25 = 35, over 3 */
    assert_true(fabs(s.std * s.std - 35.0 / 3) < 1e-14);
    assert_true(s.p99 == 9);
    /* int(.4) = 0, int(3.6) = 3: 1, 3, 5 */
    assert_true(s.middle == 3);
    assert_true(values[0] == 9 && values[3] == 3); /* left as they were */
}

/* 1..n: everything has a closed form. */
static void ranges(void **state)
{
    (void)state;
    static const struct {
        int n;
        double median, p99, middle;
    } cases[] = {
        {2, 1.5, 2, 1},     /* sorted[0:1] */
        {3, 2, 3, 1.5},     /* sorted[0:2] */
        {10, 5.5, 10, 5.5}, /* sorted[1:9]: 2..9 */
        {20, 10.5, 20, 10.5},
        {99, 50, 99, 49.5 /* 10..89 */},
        {100, 50.5, 99, 50.5},
        {101, 51, 100, 50.5 /* 11..90 */},
        {1000, 500.5, 990, 500.5},
    };
    double values[1000];
    for (size_t c = 0; c < TEST_COUNT(cases); c++) {
        for (int i = 0; i < cases[c].n; i++)
            values[i] = cases[c].n - i;
        const lsi_stats s = stats_of(values, (size_t)cases[c].n);
        assert_true(s.median == cases[c].median);
        assert_true(s.p99 == cases[c].p99);
        assert_true(fabs(s.middle - cases[c].middle) < 1e-12);
        assert_true(fabs(s.mean - (cases[c].n + 1) / 2.0) < 1e-12);
    }
}

/* Deviations of values that are large and close together do not cancel. */
static void keeps_small_deviations(void **state)
{
    (void)state;
    const double values[] = {1e9 + 1, 1e9 + 2, 1e9 + 3};
    assert_true(fabs(stats_of(values, 3).std - 1) < 1e-6);
}

static void no_values(void **state)
{
    (void)state;
    lsi_stats stats = {.n = 77};
    assert_error(lsi_stats_of(NULL, 0, &stats), LS_ERR_ARGUMENT,
                 "at least one value");
    assert_int_equal(stats.n, 77);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_value_is_everything),
        cmocka_unit_test(unordered_values),
        cmocka_unit_test(ranges),
        cmocka_unit_test(keeps_small_deviations),
        cmocka_unit_test(no_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

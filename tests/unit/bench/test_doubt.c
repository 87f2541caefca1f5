/* Which two rows are the fastest, and when they cannot be told apart. */
#include "cli/bench/doubt.h"
#include "testing.h"

static const lsi_column columns[] = {
    {.name = "mean", .title = "", .type = LSI_COLUMN_REAL},
    {.name = "q1", .title = "", .type = LSI_COLUMN_REAL},
    {.name = "q3", .title = "", .type = LSI_COLUMN_REAL},
};
static const lsi_bench_time times = {"mean", "q1", "q3"};

typedef struct row {
    double mean, q1, q3; /* a mean of 0: none was measured */
} row;

static bool overlap(const row *rows, size_t n, size_t fastest[2])
{
    lsi_table *table = NULL;
    assert_ok(lsi_table_new(&table, columns, TEST_COUNT(columns)));
    for (size_t i = 0; i < n; i++) {
        lsi_table_row(table);
        if (rows[i].mean == 0)
            continue;
        lsi_table_real(table, "mean", rows[i].mean);
        lsi_table_real(table, "q1", rows[i].q1);
        lsi_table_real(table, "q3", rows[i].q3);
    }
    assert_ok(lsi_table_status(table));
    const bool found = lsi_bench_overlap(table, times, fastest);
    lsi_table_free(&table);
    return found;
}

static void the_two_fastest_count(void **state)
{
    (void)state;
    size_t at[2];
    const row apart[] = {{9, 8, 10}, {2, 1.9, 2.1}, {0, 0, 0}, {3, 2.2, 3.1}};
    assert_false(overlap(apart, 4, at));
    const row near[] = {
        {9, 8, 10}, {3, 2, 3.1}, {0, 0, 0}, {2, 1.9, 2.1}, {9, 1, 9}};
    assert_true(overlap(near, 5, at));
    assert_true(at[0] == 3 && at[1] == 1);
    const row touch[] = {{2, 1, 3}, {4, 3, 5}, {2.5, 3.5, 4}};
    assert_false(overlap(touch, 3, at));
    assert_true(overlap(touch, 2, at));
    assert_true(at[0] == 0 && at[1] == 1);
}

static void fewer_than_two(void **state)
{
    (void)state;
    size_t at[2];
    const row one[] = {{0, 0, 0}, {1, 0, 2}, {0, 0, 0}};
    assert_false(overlap(one, 3, at));
    assert_false(overlap(one, 0, at));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_two_fastest_count),
        cmocka_unit_test(fewer_than_two),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

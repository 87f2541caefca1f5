/*
 * The partition, exhaustively where that is small, and at the largest sizes.
 */
#include "base/partition.h"
#include "testing.h"

/* Parts cover 0..n-1 in order; sizes in units fall by one, once. */
static void check_all_parts(size_t n, size_t parts, size_t unit)
{
    size_t end = 0;
    const size_t units = (n + unit - 1) / unit;
    for (size_t part = 0; part < parts; part++) {
        const lsi_range r = lsi_partition_aligned(n, parts, part, unit);
        assert_int_equal(r.begin, end);
        assert_true(r.end >= r.begin && r.end <= n);
        assert_true(r.end % unit == 0 || r.end == n);
        const size_t want = units / parts + (part < units % parts);
        assert_int_equal((lsi_range_size(r) + unit - 1) / unit, want);
        end = r.end;
    }
    assert_int_equal(end, n);
}

static void small_sizes(void **state)
{
    (void)state;
    for (size_t n = 0; n <= 70; n++)
        for (size_t parts = 1; parts <= 20; parts++)
            check_all_parts(n, parts, 1);
}

static void small_units(void **state)
{
    (void)state;
    for (size_t unit = 1; unit <= 17; unit++)
        for (size_t n = 0; n <= 70; n++)
            for (size_t parts = 1; parts <= 9; parts++)
                check_all_parts(n, parts, unit);
}

static void unit_one_is_the_plain_partition(void **state)
{
    (void)state;
    for (size_t n = 0; n <= 50; n++) {
        for (size_t part = 0; part < 7; part++) {
            const lsi_range plain = lsi_partition(n, 7, part);
            const lsi_range aligned = lsi_partition_aligned(n, 7, part, 1);
            assert_int_equal(plain.begin, aligned.begin);
            assert_int_equal(plain.end, aligned.end);
        }
    }
}

static void parts_can_be_empty(void **state)
{
    (void)state;
    const lsi_range last = lsi_partition(3, 8, 7);
    assert_int_equal(last.begin, 3);
    assert_int_equal(lsi_range_size(last), 0);
}

static void largest_sizes_do_not_overflow(void **state)
{
    (void)state;
    static const size_t part_counts[] = {1, 2, 3, 64, 1000};
    for (size_t i = 0; i < TEST_COUNT(part_counts); i++) {
        const size_t parts = part_counts[i];
        size_t end = 0;
        for (size_t part = 0; part < parts; part++) {
            const lsi_range r =
                lsi_partition_aligned(SIZE_MAX, parts, part, 64);
            assert_int_equal(r.begin, end);
            assert_true(r.end > r.begin);
            end = r.end;
        }
        assert_true(end == SIZE_MAX);
        const lsi_range whole = lsi_partition(SIZE_MAX, parts, parts - 1);
        assert_true(whole.end == SIZE_MAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_sizes),
        cmocka_unit_test(small_units),
        cmocka_unit_test(unit_one_is_the_plain_partition),
        cmocka_unit_test(parts_can_be_empty),
        cmocka_unit_test(largest_sizes_do_not_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

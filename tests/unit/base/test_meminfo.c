/*
 * Reading /proc/meminfo.
 */
#include "base/meminfo.h"
#include "testing.h"

static const char text[] = "MemTotal:       8000 kB\n"
                           "MemAvailableX:  1 kB\n"
                           "MemAvailable:   6000 kB\n"
                           "Broken:         many kB\n"
                           "Negative:       -4 kB\n"
                           "Huge:           9223372036854775807 kB\n"
                           "Last:  3";

static void parses_lines(void **state)
{
    (void)state;
    assert_int_equal(lsi_meminfo_parse(text, "MemTotal"), 8000 * 1024);
    assert_int_equal(lsi_meminfo_parse(text, "MemAvailable"), 6000 * 1024);
    assert_int_equal(lsi_meminfo_parse(text, "Last"), 3 * 1024);
    static const char *const none[] = {"Mem",      "Available", "Broken",
                                       "Negative", "Huge",      "Gone"};
    for (size_t i = 0; i < TEST_COUNT(none); i++)
        assert_int_equal(lsi_meminfo_parse(text, none[i]), -1);
    assert_int_equal(lsi_meminfo_parse("", "MemTotal"), -1);
}

/* Every Linux since 3.14 says it. */
static void this_machine_has_some(void **state)
{
    (void)state;
    assert_true(lsi_memory_available() > 1 << 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parses_lines),
        cmocka_unit_test(this_machine_has_some),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

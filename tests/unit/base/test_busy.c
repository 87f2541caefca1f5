/* The rule for a busy machine, on texts in the form of /proc/stat. */
#include <math.h>

#include "base/busy.h"
#include "testing.h"

static double seconds_in(const char *stat, const char *cpus)
{
    lsi_cpuset set;
    double seconds = -1;
    assert_true(lsi_cpuset_parse(cpus, &set));
    return lsi_busy_parse(stat, &set, 100, &seconds) ? seconds : -1;
}

static const char four[] = "cpu  900 0 0 0 0 0 0 0 0 0\n"
                           "cpu0 100 10 20 5000 700 3 4 5 50 6\n"
                           "cpu1 200 0 0 5000 0 0 0 0 0 0\n"
                           "cpu2 0 0 0 9000 0 0 0 0 0 0\n"
                           "cpu10 50 0 50 9000 0 0 0 0 0 0\n"
                           "intr 12345 0 0\n"
                           "ctxt 99\n";

/* Waiting for devices and being idle are no work; what guests do is the user's.
 */
static void work_of_cpus(void **state)
{
    (void)state;
    assert_true(fabs(seconds_in(four, "0") - 1.42) < 1e-12);
    assert_true(seconds_in(four, "1") == 2);
    assert_true(seconds_in(four, "2") == 0);
    assert_true(seconds_in(four, "10") == 1);
    assert_true(fabs(seconds_in(four, "0-10") - 4.42) < 1e-12);
    assert_true(seconds_in(four, "3-9") == -1);
    assert_true(seconds_in("", "0") == -1);
    assert_true(seconds_in("cpu0 1 2\ncpu1", "0-1") == -1);
}

static void own_work_is_no_others(void **state)
{
    (void)state;
    const lsi_busy_sample begin = {.all = 100, .own = 40, .wall = 7};
    lsi_busy_sample end = {.all = 101, .own = 40.25, .wall = 7.5};
    assert_true(lsi_busy_others(&begin, &end) == 1.5);
    end.own = 41; /* all of it ours */
    assert_true(lsi_busy_others(&begin, &end) == 0);
    end.own = 42; /* ticks are coarse */
    assert_true(lsi_busy_others(&begin, &end) == 0);
    assert_true(lsi_busy_others(&end, &end) == 0);
}

static void a_quarter_is_not_busy(void **state)
{
    (void)state;
    assert_false(lsi_busy_rule(0, 1));
    assert_false(lsi_busy_rule(0.5, 2));
    assert_true(lsi_busy_rule(0.51, 2));
    assert_false(lsi_busy_rule(2, 8));
    assert_true(lsi_busy_rule(2.1, 8));
}

static void this_machine(void **state)
{
    (void)state;
    double others = -1;
    int cpus = 0;
    if (lsi_busy_now(&others, &cpus))
        assert_true(lsi_busy_rule(others, cpus));
    else if (cpus > 0)
        assert_false(lsi_busy_rule(others, cpus));
    assert_true(cpus == 0 || others >= 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_of_cpus),
        cmocka_unit_test(own_work_is_no_others),
        cmocka_unit_test(a_quarter_is_not_busy),
        cmocka_unit_test(this_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

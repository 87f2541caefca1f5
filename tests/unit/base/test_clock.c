/*
 * Clocks, and the way from ticks to nanoseconds.
 */
#include <time.h>

#include "base/clock.h"
#include "testing.h"

static void ticks_become_times(void **state)
{
    const lsi_instant early = {1000, 50000}, late = {3000, 51000};
    (void)state;
    assert_int_equal(lsi_ticks_to_ns(1000, early, late), 50000);
    assert_int_equal(lsi_ticks_to_ns(2000, early, late), 50500);
    assert_int_equal(lsi_ticks_to_ns(3000, early, late), 51000);
    assert_int_equal(lsi_ticks_to_ns(3002, early, late), 51001);
    /* No time has passed between them: nothing to divide by. */
    assert_int_equal(lsi_ticks_to_ns(1000, early, early), 50000);
}

/* Whether they lie between two looks at the clock, give or take 10 ms. */
static bool ticks_lie_between_looks(void)
{
    const lsi_instant early = lsi_instant_now();
    const uint64_t before = lsi_clock_ns();
    const uint64_t ticks = lsi_ticks();
    const uint64_t after = lsi_clock_ns();
    while (lsi_clock_ns() - after < 20000000)
        continue;
    const uint64_t ns = lsi_ticks_to_ns(ticks, early, lsi_instant_now());
    return ns >= before - 10000000 && ns <= after + 10000000;
}

/* Five tries: a thread may lose its CPU between ticks and clock. */
static void ticks_are_the_time(void **state)
{
    bool good = false;
    (void)state;
    for (int try = 0; try < 5 && !good; try++)
        good = ticks_lie_between_looks();
    assert_true(good);
}

static void the_wall_clock_is_that_of_the_system(void **state)
{
    (void)state;
    const time_t now = time(NULL);
    const uint64_t seconds = lsi_wall_clock_ns() / 1000000000;
    assert_in_range(seconds, now - 1, now + 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ticks_become_times),
        cmocka_unit_test(ticks_are_the_time),
        cmocka_unit_test(the_wall_clock_is_that_of_the_system),
    };
    return cmocka_run_group_tests_name("clock", tests, NULL, NULL);
}

/*
 * Many jobs that start at once on one machine find their own ranks, and no
 * others. The program's argument is how many.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../unit/comm/ranks.h"

enum { MOST_JOBS = 200, RANKS = 2 };

static int n_jobs = 10;

static void reduce(ls_group *group, void *argument)
{
    const int64_t job = *(const int *)argument;
    CHECK(ls_group_size(group) == RANKS);
    for (int i = 0; i < 100; i++) {
        int64_t x = 1000 * job + i;
        CHECK_OK(ls_all_reduce(group, &x, &x, 1, LS_I64, LS_REDUCE_SUM));
        CHECK(x == RANKS * (1000 * job + i));
    }
}

static void jobs_do_not_mix(void **state)
{
    static int number[MOST_JOBS];
    static pid_t pids[MOST_JOBS][RANKS];
    (void)state;
    assert_in_range(n_jobs, 1, MOST_JOBS);
    for (int j = 0; j < n_jobs; j++) {
        number[j] = j;
        start_processes(RANKS, reduce, &number[j], pids[j]);
    }
    for (int j = 0; j < n_jobs; j++)
        for (int r = 0; r < RANKS; r++)
            assert_int_equal(wait_process(pids[j][r]), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_do_not_mix),
    };
    if (argc > 1)
        n_jobs = atoi(argv[1]);
    return cmocka_run_group_tests_name("jobs", tests, NULL, NULL);
}

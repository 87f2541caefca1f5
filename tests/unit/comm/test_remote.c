/*
 * The processes that may read a rank's memory, and for how long. Whether the
 * kernel permits it depends on Yama; the test checks the request to the kernel.
 */
#include "testing.h"

#include <stdarg.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/coll/copy_probe.h"
#include "comm/state/state.h"
#include "ranks.h"

#define SELECT_COPY "all_reduce:0-inf:copy"

static long asked[8];
static int n_asked;

int prctl_of_test(int option, ...) __asm__("__wrap_prctl");
int prctl_of_system(int option, ...) __asm__("__real_prctl");

int prctl_of_test(int option, ...)
{
    va_list arguments;
    va_start(arguments, option);
    const unsigned long value = va_arg(arguments, unsigned long);
    va_end(arguments);
    if (option != PR_SET_PTRACER)
        return prctl_of_system(option, value, 0UL, 0UL, 0UL);
    CHECK(n_asked < (int)TEST_COUNT(asked));
    asked[n_asked++] = (long)value;
    return 0;
}

/* The windows win, so that the defaults never copy. */
ls_status
probe_of_test(ls_group *group, bool with_kernel,
              lsi_copy_answer *answer) __asm__("__wrap_lsi_copy_probe");

ls_status probe_of_test(ls_group *group, bool with_kernel,
                        lsi_copy_answer *answer)
{
    (void)group;
    (void)with_kernel;
    *answer = (lsi_copy_answer){false, LSI_COPYING_LOSES};
    return LS_OK;
}

static void sum(ls_group *group)
{
    enum { COUNT = 100000 };
    float *const data = malloc(2 * COUNT * sizeof(*data));
    for (int i = 0; i < COUNT; i++)
        data[i] = (float)(i % 11);
    CHECK_OK(
        ls_all_reduce(group, data, data + COUNT, COUNT, LS_F32, LS_REDUCE_SUM));
    for (int i = 0; i < COUNT; i++)
        CHECK(data[COUNT + i] == (float)(ls_group_size(group) * (i % 11)));
    free(data);
}

static void use_defaults(ls_group *group, void *unused)
{
    (void)unused;
    sum(group);
    CHECK(n_asked == 0 && !group->memory.can_copy);
}

static void who_does_not_copy_admits_nobody(void **state)
{
    (void)state;
    run_processes(2, use_defaults, NULL);
}

static void copy_for_a_while(ls_group *group, void *unused)
{
    ls_group *part = NULL, *other = NULL;
    (void)unused;
    CHECK_OK(ls_group_split(group, 0, 0, &part));
    CHECK_OK(ls_group_split(group, 0, 0, &other));
    CHECK(n_asked == 0);
    CHECK_OK(ls_group_select(part, SELECT_COPY));
    CHECK(n_asked == 1 && asked[0] == getppid());
    CHECK_OK(ls_group_select(part, SELECT_COPY));
    CHECK_OK(ls_group_select(other, SELECT_COPY));
    CHECK(asked[n_asked - 1] == getppid());
    sum(part);
    sum(other);
    const int before = n_asked;
    ls_group_close(&part);
    CHECK(n_asked == before); /* the other still copies */
    ls_group_close(&other);
    CHECK(n_asked == before + 1 && asked[before] == 0);
    sum(group);
}

static void who_copies_admits_its_launcher_meanwhile(void **state)
{
    (void)state;
    run_processes(2, copy_for_a_while, NULL);
}

/* One rank is a grandchild of the launcher, which is still the nearest. */
static void be_rank(int rank, pid_t launcher)
{
    ls_group *group = NULL;
    CHECK((getppid() == launcher) == (rank == 0));
    setenv("RANK", rank == 0 ? "0" : "1", 1);
    setenv("LOCAL_RANK", rank == 0 ? "0" : "1", 1);
    setenv("WORLD_SIZE", "2", 1);
    setenv("LOCAL_WORLD_SIZE", "2", 1);
    CHECK_OK(ls_group_from_env(&group));
    CHECK_OK(ls_group_select(group, SELECT_COPY));
    CHECK(n_asked == 1 && asked[0] == launcher);
    sum(group);
    ls_group_close(&group);
    CHECK(n_asked == 2 && asked[1] == 0);
    _exit(0);
}

static void ranks_may_be_of_two_generations(void **state)
{
    const pid_t launcher = getpid();
    pid_t pids[2];
    char job[64];
    (void)state;
    snprintf(job, sizeof(job), "test-generations-%ld", (long)launcher);
    setenv("LOCKSTEP_JOB", job, 1);
    for (int r = 0; r < 2; r++) {
        pids[r] = fork();
        if (pids[r] != 0)
            continue;
        const pid_t inner = r == 1 ? fork() : 0;
        if (inner == 0)
            be_rank(r, launcher);
        _exit(wait_process(inner) != 0);
    }
    for (int r = 0; r < 2; r++)
        assert_int_equal(wait_process(pids[r]), 0);
}

static void copy_in_threads(ls_group *group, void *unused)
{
    (void)unused;
    CHECK_OK(ls_group_select(group, SELECT_COPY));
    sum(group);
    CHECK(n_asked == 0 && group->memory.can_copy);
}

static void threads_read_what_is_theirs(void **state)
{
    (void)state;
    run_threads(2, copy_in_threads, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_does_not_copy_admits_nobody),
        cmocka_unit_test(who_copies_admits_its_launcher_meanwhile),
        cmocka_unit_test(ranks_may_be_of_two_generations),
        cmocka_unit_test(threads_read_what_is_theirs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

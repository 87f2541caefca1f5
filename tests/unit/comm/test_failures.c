/*
 * The errors of other ranks when a rank dies, stops, leaves or makes another
 * call.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "comm/api/group.h"
#include "ranks.h"

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- death --------------------------------------------------------------- */

enum { VICTIM = 1 };

/* Keeps on reducing until the group fails; the victim kills itself. */
static void reduce_until_death(ls_group *group, void *argument)
{
    const size_t count = *(const size_t *)argument;
    float *data = calloc(count + 1, sizeof(float));
    ls_status status = LS_OK;
    for (int i = 0; status == LS_OK; i++) {
        if (ls_group_rank(group) == VICTIM && i == 20)
            kill(getpid(), SIGKILL);
        status = ls_all_reduce(group, data, data, count, LS_F32, LS_REDUCE_SUM);
    }
    CHECK(status == LS_ERR_PEER_DEAD);
    CHECK(strstr(ls_last_error(), "rank 1 (host ") != NULL);
    CHECK(strstr(ls_last_error(), "all_reduce") != NULL);
    /* It stays failed, at once. */
    CHECK(ls_barrier(group) == LS_ERR_PEER_DEAD);
    free(data);
}

/* How many seconds survivors need to notice a death, and to end. */
static double time_survivors(int size, rank_fn *fn, void *argument)
{
    pid_t pids[8];
    start_processes(size, fn, argument, pids);
    const int died = wait_process(pids[VICTIM]);
    const double then = seconds();
    assert_true(WIFSIGNALED(died) && WTERMSIG(died) == SIGKILL);
    for (int r = 0; r < size; r++)
        if (r != VICTIM)
            assert_int_equal(wait_process(pids[r]), 0);
    return seconds() - then;
}

static void check_survivors(int size, rank_fn *fn, void *argument)
{
    CHECK_QUICK(time_survivors(size, fn, argument), 2.0);
}

static void death_in_a_collective(void **state)
{
    static const size_t counts[] = {1, 100000};
    (void)state;
    for (int size = 2; size <= 4; size++)
        for (int c = 0; c < 2; c++) {
            size_t count = counts[c];
            check_survivors(size, reduce_until_death, &count);
        }
}

static void wait_for_message(ls_group *group, void *argument)
{
    int value = 0;
    (void)argument;
    if (ls_group_rank(group) == VICTIM)
        kill(getpid(), SIGKILL);
    CHECK(ls_recv(group, &value, 1, LS_I32, VICTIM, 0) == LS_ERR_PEER_DEAD);
    CHECK(strstr(ls_last_error(), "rank 1 ") != NULL);
}

static void death_instead_of_a_message(void **state)
{
    (void)state;
    check_survivors(3, wait_for_message, NULL);
}

static void leave_early(ls_group *group, void *argument)
{
    (void)argument;
    if (ls_group_rank(group) == VICTIM)
        return; /* closes the group */
    CHECK(ls_barrier(group) == LS_ERR_PEER_DEAD);
    CHECK(strstr(ls_last_error(), "has closed the group") != NULL);
}

static void leaving_is_seen(void **state)
{
    (void)state;
    run_threads(3, leave_early, NULL);
    run_processes(3, leave_early, NULL);
}

/* The last to arrive may be gone before the others have looked. */
static void leave_after_the_last(ls_group *group, void *argument)
{
    (void)argument;
    for (int i = 0; i < 50; i++)
        CHECK_OK(ls_barrier(group));
}

static void leaving_at_the_end_is_fine(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++) {
        run_threads(4, leave_after_the_last, NULL);
        run_processes(2, leave_after_the_last, NULL);
    }
}

/* ---- duplicates ---------------------------------------------------------- */

/* A survivor may use the original next. */
static void die_in_duplicate(ls_group *group, void *argument)
{
    (void)argument;
    ls_group *duplicate = NULL;
    ls_failure why = {.struct_size = sizeof(why)};
    CHECK_OK(lsi_group_dup(group, &duplicate));
    if (ls_group_rank(group) == VICTIM)
        kill(getpid(), SIGKILL);
    CHECK(ls_barrier(duplicate) == LS_ERR_PEER_DEAD);
    CHECK(ls_group_failure(group, &why));
    CHECK(why.status == LS_ERR_PEER_DEAD && why.rank == VICTIM);
    ls_group_close(&duplicate);
}

static void death_in_a_duplicate(void **state)
{
    (void)state;
    check_survivors(3, die_in_duplicate, NULL);
}

static void close_duplicate(ls_group *group, void *argument)
{
    (void)argument;
    ls_group *duplicate = NULL;
    CHECK_OK(lsi_group_dup(group, &duplicate));
    if (ls_group_rank(group) != VICTIM)
        CHECK(ls_barrier(duplicate) == LS_ERR_PEER_DEAD);
    ls_group_close(&duplicate);
    CHECK_OK(ls_barrier(group));
}

static void leaving_a_duplicate_is_fine(void **state)
{
    (void)state;
    run_threads(3, close_duplicate, NULL);
    run_processes(3, close_duplicate, NULL);
}

/* ---- lateness ------------------------------------------------------------ */

/*
 * The victim stops when all others have begun to wait for it, so that no other
 * rank can be late. Only then does their time count.
 */
static void let_victim_stop(ls_group *group)
{
    const int size = ls_group_size(group);
    int word = 0;
    if (ls_group_rank(group) == VICTIM) {
        for (int r = 0; r < size; r++)
            if (r != VICTIM)
                CHECK_OK(ls_recv(group, &word, 1, LS_I32, r, 0));
        for (int r = 0; r < size; r++)
            if (r != VICTIM)
                CHECK_OK(ls_send(group, &word, 1, LS_I32, r, 0));
        kill(getpid(), SIGSTOP);
    } else {
        CHECK_OK(ls_send(group, &word, 1, LS_I32, VICTIM, 0));
        CHECK_OK(ls_recv(group, &word, 1, LS_I32, VICTIM, 0));
    }
    CHECK_OK(ls_group_set_timeout(group, 0.5));
}

static void wait_for_late(ls_group *group, void *argument)
{
    float x = 1;
    ls_request *request = NULL;
    (void)argument;
    if (ls_group_rank(group) != VICTIM)
        CHECK_OK(
            ls_iall_reduce(group, &x, &x, 1, LS_F32, LS_REDUCE_SUM, &request));
    let_victim_stop(group);
    const ls_status status =
        request != NULL
            ? ls_wait(request)
            : ls_all_reduce(group, &x, &x, 1, LS_F32, LS_REDUCE_SUM);
    CHECK(status == LS_ERR_TIMEOUT);
    CHECK(strstr(ls_last_error(), "gave up waiting for rank 1 (host") != NULL);
    CHECK(strstr(ls_last_error(), "rank 1 (pid") != NULL);
    CHECK(strstr(ls_last_error(), "all_reduce of 1 f32 (sum)") != NULL);
    ls_request_free(&request);
}

static void a_stopped_rank_is_late_not_dead(void **state)
{
    pid_t pids[3];
    (void)state;
    start_processes(3, wait_for_late, NULL, pids);
    assert_int_equal(wait_process(pids[0]), 0);
    assert_int_equal(wait_process(pids[2]), 0);
    /* It comes back, and learns what it has missed. */
    kill(pids[VICTIM], SIGCONT);
    assert_int_equal(wait_process(pids[VICTIM]), 0);
}

/* The table ends with a whole line, and says how many ranks it leaves out. */
static void wait_among_many(ls_group *group, void *argument)
{
    ls_request *request = NULL;
    (void)argument;
    if (ls_group_rank(group) != VICTIM)
        CHECK_OK(ls_ibarrier(group, &request));
    let_victim_stop(group);
    CHECK((request != NULL ? ls_wait(request) : ls_barrier(group)) ==
          LS_ERR_TIMEOUT);
    const char *text = ls_last_error(), *more = strstr(text, "\n  and ");
    int lines = 0;
    for (const char *c = text; (c = strchr(c, '\n')) != NULL; c++)
        lines++;
    CHECK(more != NULL && strchr(more + 1, '\n') == NULL);
    CHECK(atoi(more + strlen("\n  and ")) == 16 - (lines - 1));
    CHECK(ls_group_rank(group) == VICTIM ||
          strstr(text, "State of the ranks:\n  rank 1 (pid") != NULL);
    ls_request_free(&request);
}

static void a_long_table_says_that_there_are_more(void **state)
{
    pid_t pids[16];
    (void)state;
    start_processes(16, wait_among_many, NULL, pids);
    for (int r = 0; r < 16; r++)
        if (r != VICTIM)
            assert_int_equal(wait_process(pids[r]), 0);
    kill(pids[VICTIM], SIGCONT);
    assert_int_equal(wait_process(pids[VICTIM]), 0);
}

static void a_rank_that_never_starts_is_named(void **state)
{
    char name[32]; /* no other run of this test has it */
    (void)state;
    snprintf(name, sizeof(name), "never-%ld", (long)getpid());
    setenv("LOCKSTEP_TIMEOUT", "0.3", 1);
    setenv("LOCKSTEP_JOB", name, 1);
    setenv("WORLD_SIZE", "3", 1);
    setenv("LOCAL_WORLD_SIZE", "3", 1);
    setenv("LOCAL_RANK", "0", 1);
    setenv("RANK", "0", 1);
    ls_group *group = NULL;
    assert_int_equal(ls_group_from_env(&group), LS_ERR_TIMEOUT);
    assert_non_null(strstr(ls_last_error(),
                           "1 of 3 ranks have joined; missing ranks: 1, 2"));
    setenv("LOCAL_RANK", "2", 1);
    setenv("RANK", "2", 1);
    assert_int_equal(ls_group_from_env(&group), LS_ERR_TIMEOUT);
    assert_non_null(strstr(ls_last_error(), "gave up waiting for rank 0"));
    assert_null(group);
    unsetenv("LOCKSTEP_TIMEOUT");
}

/* ---- disagreement -------------------------------------------------------- */

typedef struct disagreement {
    ls_status (*call)(ls_group *group, bool odd, void *data);
    const char *field, *side, *other_side;
} disagreement;

static ls_status differ_operation(ls_group *group, bool odd, void *data)
{
    return odd ? ls_barrier(group)
               : ls_all_reduce(group, data, data, 1, LS_F32, LS_REDUCE_SUM);
}

static ls_status differ_count(ls_group *group, bool odd, void *data)
{
    return ls_all_reduce(group, data, data, odd ? 2 : 1, LS_F32, LS_REDUCE_SUM);
}

static ls_status differ_count_much(ls_group *group, bool odd, void *data)
{
    return ls_all_reduce(group, data, data, odd ? 50000 : 1, LS_F32,
                         LS_REDUCE_SUM);
}

static ls_status differ_type(ls_group *group, bool odd, void *data)
{
    return ls_all_reduce(group, data, data, 1, odd ? LS_I32 : LS_F32,
                         LS_REDUCE_SUM);
}

static ls_status differ_redop(ls_group *group, bool odd, void *data)
{
    return ls_all_reduce(group, data, data, 1, LS_F32,
                         odd ? LS_REDUCE_MAX : LS_REDUCE_MIN);
}

static ls_status differ_root(ls_group *group, bool odd, void *data)
{
    return ls_broadcast(group, data, 1, LS_F32, odd ? 0 : 1);
}

static ls_status differ_order(ls_group *group, bool odd, void *data)
{
    ls_status status =
        odd ? ls_broadcast(group, data, 1, LS_F32, 0) : ls_barrier(group);
    if (status == LS_OK)
        status =
            odd ? ls_barrier(group) : ls_broadcast(group, data, 1, LS_F32, 0);
    return status;
}

static ls_status differ_plan(ls_group *group, bool odd, void *data)
{
    ls_request *request = NULL;
    return ls_all_reduce_plan(group, data, data, odd ? 2 : 1, LS_F32,
                              LS_REDUCE_SUM, &request);
}

static ls_status differ_line(ls_group *group, bool odd, void *data)
{
    (void)data;
    return ls_group_select(group, odd ? "all_reduce:0-inf:ring" : "");
}

static ls_status differ_buffer(ls_group *group, bool odd, void *data)
{
    void *a = NULL, *b = NULL;
    (void)data;
    CHECK_OK(ls_shared_alloc(group, 64, &a));
    CHECK_OK(ls_shared_alloc(group, 64, &b));
    return ls_shared_free(group, odd ? &a : &b);
}

static ls_status differ_message(ls_group *group, bool odd, void *data)
{
    return odd ? ls_send(group, data, 3, LS_F32, 0, 0)
               : ls_recv(group, data, 4, LS_F32, 1, 0);
}

static const disagreement disagreements[] = {
    {differ_operation, "(operation differs)", "in barrier", "in all_reduce of"},
    {differ_count, "(count differs)", "of 1 f32", "of 2 f32"},
    {differ_count_much, "(count differs)", "of 1 f32", "of 50000 f32"},
    {differ_type, "(type differs)", "of 1 f32", "of 1 i32"},
    {differ_redop, "(reduction differs)", "(min)", "(max)"},
    {differ_root, "(root differs)", "at root 0", "at root 1"},
    {differ_order, "(operation differs)", "in barrier", "in broadcast of"},
    {differ_plan, "(count differs)", "in plan of 1 f32 (sum)", "of 2 f32"},
    {differ_line, "(line differs)", "ranks ", " are both in select with fast"},
    {differ_buffer, "(buffer differs)", "ranks ", " are both in shared_free"},
    {differ_message, "(count differs)", "send of 3 f32", "recv of 4 f32"},
};

enum { DISAGREEMENTS = sizeof(disagreements) / sizeof(disagreements[0]) };

static void disagree(ls_group *group, void *argument)
{
    const disagreement *which = argument;
    float *data = calloc(50000, sizeof(float));
    const bool odd = ls_group_rank(group) == ls_group_size(group) - 1;
    CHECK_OK(ls_barrier(group));
    const ls_status status = which->call(group, odd, data);
    /* The sender of a message that fits the stream has gone on. */
    if (status == LS_OK) {
        CHECK(which->call == differ_message && odd);
        CHECK(ls_barrier(group) == LS_ERR_MISMATCH);
    } else {
        CHECK(status == LS_ERR_MISMATCH);
    }
    CHECK(strstr(ls_last_error(), which->field) != NULL);
    CHECK(strstr(ls_last_error(), which->side) != NULL);
    CHECK(strstr(ls_last_error(), which->other_side) != NULL);
    free(data);
}

/* How many seconds ranks need to meet, to disagree and to notice. */
static double time_disagreement(void (*run)(int, rank_fn *, void *), int size,
                                disagreement which)
{
    const double then = seconds();
    run(size, disagree, &which);
    return seconds() - then;
}

static void every_disagreement_is_an_error(void **state)
{
    (void)state;
    for (int i = 0; i < DISAGREEMENTS; i++) {
        const disagreement which = disagreements[i];
        CHECK_QUICK(time_disagreement(run_threads, 2, which), 1.0);
        CHECK_QUICK(time_disagreement(run_processes, 2, which), 1.0);
        if (which.call != differ_message)
            CHECK_QUICK(time_disagreement(run_threads, 4, which), 1.0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(death_in_a_collective),
        cmocka_unit_test(death_instead_of_a_message),
        cmocka_unit_test(leaving_is_seen),
        cmocka_unit_test(leaving_at_the_end_is_fine),
        cmocka_unit_test(death_in_a_duplicate),
        cmocka_unit_test(leaving_a_duplicate_is_fine),
        cmocka_unit_test(a_stopped_rank_is_late_not_dead),
        cmocka_unit_test(a_long_table_says_that_there_are_more),
        cmocka_unit_test(a_rank_that_never_starts_is_named),
        cmocka_unit_test(every_disagreement_is_an_error),
    };
    return cmocka_run_group_tests_name("failures", tests, NULL, NULL);
}

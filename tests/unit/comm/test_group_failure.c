/*
 * ls_group_failure: the ranks, the process and the call of the sentence.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "nodes.h"
#include "ranks.h"

enum { VICTIM = 1 };

static const int two_by_two[] = {2, 2};

/* ---- before a failure, and beside one ------------------------------------ */

static bool has_failed(const ls_group *group)
{
    ls_failure out = {.struct_size = sizeof(out), .rank = 77};
    const bool failed = ls_group_failure(group, &out);
    CHECK(failed || out.rank == 77);
    return failed;
}

static void go_on(ls_group *group, void *unused)
{
    float x = 1, *none = ls_group_rank(group) == 0 ? NULL : &x;
    (void)unused;
    CHECK(!has_failed(group));
    CHECK_OK(ls_barrier(group));
    CHECK(!has_failed(group));
    CHECK(ls_all_reduce(group, none, none, 1, LS_F32, LS_REDUCE_SUM) ==
          LS_ERR_ARGUMENT);
    CHECK(!has_failed(group)); /* it stays usable */
    CHECK_OK(ls_barrier(group));
}

static void a_group_that_goes_on_has_not_failed(void **state)
{
    (void)state;
    run_threads(2, go_on, NULL);
    run_processes(2, go_on, NULL);
    run_nodes(two_by_two, 2, go_on, NULL);
}

/* ---- failures ------------------------------------------------------------ */

/* The failure of the last call, whose message must agree with it. */
static ls_failure failure_of(const ls_group *group, ls_status status)
{
    ls_failure why = {.struct_size = sizeof(why)};
    CHECK(ls_group_failure(group, &why));
    CHECK(why.struct_size == sizeof(why));
    CHECK(why.status == status);
    return why;
}

/*
 * A rank of another node may learn of a failure in the collective that others
 * have left. The failure is that of this call, not the last one of opening the
 * group.
 */
static void meet(ls_group *group, ls_status failure)
{
    const ls_status status = ls_barrier(group);
    CHECK(status == LS_OK || status == failure);
}

static void check_said(const char *words)
{
    CHECK(strstr(ls_last_error(), words) != NULL);
}

/* The sentence says "<before>rank 1 (host h, pid 7)<after>". */
static void check_named(const ls_failure *why, const char *before,
                        const char *after)
{
    char words[256];
    snprintf(words, sizeof(words), "%srank %d (host %s, pid %d)%s", before,
             why->rank, why->host, why->pid, after);
    CHECK(why->host[0] != '\0' && why->pid > 0);
    check_said(words);
}

/* The sentence says "in all_reduce of 1 f32 (sum), #7". */
static void check_call(const ls_failure *why, const char *operation,
                       const char *of)
{
    char words[128];
    snprintf(words, sizeof(words), "in %s%s, #%llu", operation, of,
             (unsigned long long)why->sequence);
    CHECK(strcmp(why->operation, operation) == 0);
    CHECK(why->sequence > 0);
    check_said(words);
}

/* The process of the victim, which all ranks learn before it fails. */
static int victim_pid(ls_group *group)
{
    int32_t pids[8] = {0}, own = (int32_t)getpid();
    CHECK_OK(ls_all_gather(group, &own, pids, 1, LS_I32));
    return pids[VICTIM];
}

static void kill_one(ls_group *group, void *unused)
{
    float x = 1;
    char host[256] = "";
    const int pid = victim_pid(group);
    (void)unused;
    if (ls_group_rank(group) == VICTIM)
        kill(getpid(), SIGKILL);
    CHECK(ls_all_reduce(group, &x, &x, 1, LS_F32, LS_REDUCE_SUM) ==
          LS_ERR_PEER_DEAD);
    const ls_failure why = failure_of(group, LS_ERR_PEER_DEAD);
    CHECK(why.rank == VICTIM && why.other_rank == -1 && why.pid == pid);
    CHECK(gethostname(host, sizeof(host) - 1) == 0);
    CHECK(strncmp(host, why.host, sizeof(why.host) - 1) == 0);
    check_named(&why, "", " has died");
    check_call(&why, "all_reduce", " of 1 f32 (sum)");
}

static void a_killed_rank_is_named(void **state)
{
    pid_t pids[3];
    (void)state;
    start_processes(3, kill_one, NULL, pids);
    for (int r = 0; r < 3; r++)
        assert_true((wait_process(pids[r]) == 0) == (r != VICTIM));
}

static void receive_from_the_dead(ls_group *group, void *unused)
{
    int x = 0;
    (void)unused;
    if (ls_group_rank(group) == VICTIM)
        kill(getpid(), SIGKILL);
    CHECK(ls_recv(group, &x, 1, LS_I32, VICTIM, 0) == LS_ERR_PEER_DEAD);
    const ls_failure why = failure_of(group, LS_ERR_PEER_DEAD);
    check_named(&why, "", " has died");
    CHECK(strcmp(why.operation, "") == 0 && why.sequence == 0);
}

static void a_message_has_no_number(void **state)
{
    pid_t pids[2];
    (void)state;
    start_processes(2, receive_from_the_dead, NULL, pids);
    assert_int_equal(wait_process(pids[0]), 0);
    (void)wait_process(pids[VICTIM]);
}

static void close_early(ls_group *group, void *unused)
{
    (void)unused;
    CHECK_OK(ls_group_set_timeout(group, 30));
    meet(group, LS_ERR_PEER_DEAD);
    if (ls_group_rank(group) == VICTIM)
        return; /* closes the group */
    CHECK(ls_barrier(group) == LS_ERR_PEER_DEAD);
    const ls_failure why = failure_of(group, LS_ERR_PEER_DEAD);
    CHECK(why.rank == VICTIM && why.other_rank == -1);
    check_named(&why, "", " has closed the group");
    CHECK(strcmp(why.operation, "barrier") == 0 && why.sequence > 0);
}

static void a_rank_that_has_closed_the_group_is_named(void **state)
{
    (void)state;
    run_threads(3, close_early, NULL);
    run_processes(3, close_early, NULL);
    run_nodes(two_by_two, 2, close_early, NULL);
}

static void check_late(const ls_group *group)
{
    char words[64];
    const ls_failure why = failure_of(group, LS_ERR_TIMEOUT);
    CHECK(why.rank == VICTIM && why.other_rank != VICTIM);
    snprintf(words, sizeof(words), "rank %d gave up", why.other_rank);
    check_said(words);
    check_named(&why, "gave up waiting for ", "");
    CHECK(strcmp(why.operation, "all_reduce") == 0);
}

static void stop_one(ls_group *group, void *unused)
{
    float x = 1;
    const int pid = victim_pid(group);
    (void)unused;
    CHECK_OK(ls_group_set_timeout(group, 0.5));
    if (ls_group_rank(group) == VICTIM)
        kill(getpid(), SIGSTOP);
    CHECK(ls_all_reduce(group, &x, &x, 1, LS_F32, LS_REDUCE_SUM) ==
          LS_ERR_TIMEOUT);
    check_late(group);
    CHECK(failure_of(group, LS_ERR_TIMEOUT).pid == pid);
}

static void a_late_rank_is_named(void **state)
{
    pid_t pids[3];
    (void)state;
    start_processes(3, stop_one, NULL, pids);
    assert_int_equal(wait_process(pids[0]), 0);
    assert_int_equal(wait_process(pids[2]), 0);
    kill(pids[VICTIM], SIGCONT);
    assert_int_equal(wait_process(pids[VICTIM]), 0);
}

/* The other rank of the first node gives up; the second node learns of it. */
static void come_late(ls_group *group, void *gone)
{
    _Atomic int *others = gone;
    float x = 1;
    CHECK_OK(ls_group_set_timeout(group, 0.5));
    CHECK_OK(ls_barrier(group));
    while (ls_group_rank(group) == VICTIM && atomic_load(others) < 3)
        sched_yield();
    CHECK(ls_all_reduce(group, &x, &x, 1, LS_F32, LS_REDUCE_SUM) ==
          LS_ERR_TIMEOUT);
    atomic_fetch_add(others, 1);
    check_late(group);
}

static void a_late_rank_of_another_node_is_named(void **state)
{
    _Atomic int others = 0;
    (void)state;
    run_nodes(two_by_two, 2, come_late, &others);
}

/* "rank 0 is in all_reduce of 1 f32 (sum), rank 1 in all_reduce of 2 ..." */
static void disagree(ls_group *group, void *unused)
{
    float x[2] = {1, 2};
    char words[128];
    const bool odd = ls_group_rank(group) == VICTIM;
    (void)unused;
    meet(group, LS_ERR_MISMATCH);
    CHECK(ls_all_reduce(group, x, x, odd ? 2 : 1, LS_F32, LS_REDUCE_SUM) ==
          LS_ERR_MISMATCH);
    const ls_failure why = failure_of(group, LS_ERR_MISMATCH);
    CHECK((why.rank == VICTIM) != (why.other_rank == VICTIM));
    snprintf(words, sizeof(words),
             "call #%llu (count differs): rank %d is in all_reduce of ",
             (unsigned long long)why.sequence, why.rank);
    check_said(words);
    snprintf(words, sizeof(words), ", rank %d in ", why.other_rank);
    check_said(words);
    CHECK(strcmp(why.operation, "all_reduce") == 0);
    CHECK(why.pid > 0 && why.host[0] != '\0');
}

static void disagree_about_a_message(ls_group *group, void *unused)
{
    float x[4] = {0};
    (void)unused;
    if (ls_group_rank(group) == VICTIM)
        ls_ignore(ls_send(group, x, 3, LS_F32, 0, 0)); /* may be over before */
    else
        CHECK(ls_recv(group, x, 4, LS_F32, VICTIM, 0) == LS_ERR_MISMATCH);
    CHECK(ls_barrier(group) == LS_ERR_MISMATCH);
    const ls_failure why = failure_of(group, LS_ERR_MISMATCH);
    CHECK(why.rank == VICTIM && why.other_rank == 0 && why.sequence == 0);
    CHECK(strcmp(why.operation, "send") == 0);
}

static void both_sides_of_a_mismatch_are_named(void **state)
{
    (void)state;
    run_threads(3, disagree, NULL);
    run_processes(2, disagree, NULL);
    run_nodes(two_by_two, 2, disagree, NULL);
    run_threads(2, disagree_about_a_message, NULL);
    run_processes(2, disagree_about_a_message, NULL);
}

static void abort_all(ls_group *group, void *unused)
{
    (void)unused;
    meet(group, LS_ERR_ABORTED);
    if (ls_group_rank(group) == VICTIM)
        ls_group_abort(group);
    CHECK(ls_barrier(group) == LS_ERR_ABORTED);
    const ls_failure why = failure_of(group, LS_ERR_ABORTED);
    CHECK(why.rank == VICTIM && why.other_rank == -1);
    CHECK(ls_group_rank(group) == VICTIM || why.pid > 0);
    if (ls_group_rank(group) != VICTIM)
        check_named(&why, "", " has aborted");
}

static void who_aborts_is_named(void **state)
{
    (void)state;
    run_threads(3, abort_all, NULL);
    run_nodes(two_by_two, 2, abort_all, NULL);
}

/* ---- who asks, and with what --------------------------------------------- */

static void ask_in_a_child(ls_group *group, void *unused)
{
    (void)unused;
    ls_group_abort(group);
    CHECK(has_failed(group));
    const pid_t child = fork();
    if (child == 0)
        _exit(has_failed(group)); /* a child is not a member */
    CHECK(wait_process(child) == 0);
}

static void a_child_has_no_failure(void **state)
{
    (void)state;
    run_processes(1, ask_in_a_child, NULL);
}

static void ask_with_sizes(ls_group *group, void *unused)
{
    struct newer {
        ls_failure known;
        int member;
    } newer = {.known = {.struct_size = sizeof(newer)}, .member = 7};
    ls_failure wrong = {.struct_size = 3, .rank = 77}, zero = {0};
    (void)unused;
    ls_group_abort(group);
    CHECK(!ls_group_failure(group, &wrong) && wrong.rank == 77);
    check_said("ls_failure.struct_size is 3");
    CHECK(ls_group_failure(group, &zero));
    CHECK(zero.struct_size == 0 && zero.status == LS_ERR_ABORTED);
    CHECK(strcmp(zero.operation, "") == 0);
    CHECK(ls_group_failure(group, &newer.known));
    CHECK(newer.known.status == LS_ERR_ABORTED && newer.member == 0);
}

static void programs_of_other_versions_ask(void **state)
{
    (void)state;
    run_threads(1, ask_with_sizes, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_that_goes_on_has_not_failed),
        cmocka_unit_test(a_killed_rank_is_named),
        cmocka_unit_test(a_message_has_no_number),
        cmocka_unit_test(a_rank_that_has_closed_the_group_is_named),
        cmocka_unit_test(a_late_rank_is_named),
        cmocka_unit_test(a_late_rank_of_another_node_is_named),
        cmocka_unit_test(both_sides_of_a_mismatch_are_named),
        cmocka_unit_test(who_aborts_is_named),
        cmocka_unit_test(a_child_has_no_failure),
        cmocka_unit_test(programs_of_other_versions_ask),
    };
    return cmocka_run_group_tests_name("group failure", tests, NULL, NULL);
}

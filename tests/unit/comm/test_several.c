/*
 * Waiting for several requests: all of them, or one after the other; and
 * sending and receiving at once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "nodes.h"

enum { LONG = 100003, VICTIM = 1, LENGTHS = 4 };

static const size_t lengths[LENGTHS] = {7, 0, LONG, 1};
static const int one_and_two[] = {1, 2};

static void everywhere(rank_fn *fn)
{
    static const int sizes[] = {1, 2, 3, 5};
    for (int i = 0; i < 4; i++)
        run_threads(sizes[i], fn, NULL);
    run_processes(3, fn, NULL);
    run_nodes(one_and_two, 2, fn, NULL);
}

static int right_of(const ls_group *group)
{
    return (ls_group_rank(group) + 1) % ls_group_size(group);
}

static int left_of(const ls_group *group)
{
    const int size = ls_group_size(group);
    return (ls_group_rank(group) + size - 1) % size;
}

static int32_t value(int rank, size_t i)
{
    return (int32_t)(i % 1009) * 7 + rank * 13;
}

static int32_t *integers(size_t n)
{
    int32_t *const made = calloc(n + 1, sizeof(*made));
    CHECK(made != NULL);
    return made;
}

static int32_t *values_of(int rank, size_t n)
{
    int32_t *const made = integers(n);
    for (size_t i = 0; i < n; i++)
        made[i] = value(rank, i);
    return made;
}

static void check_values(const int32_t *got, int rank, size_t n)
{
    for (size_t i = 0; i < n; i++)
        CHECK(got[i] == value(rank, i));
}

static void check_sums(const int32_t *got, int size, size_t n)
{
    for (size_t i = 0; i < n; i++)
        CHECK(got[i] ==
              (int32_t)(i % 1009) * 7 * size + 13 * (size * (size - 1) / 2));
}

/* Over and not in flight, so that it must not be waited for. */
static void check_over(ls_request *request)
{
    CHECK(ls_test(request) == LS_ERR_STATE);
}

/* ---- all ----------------------------------------------------------------- */

/* Sums, and a message round the ring, of each length. */
static void wait_for_all(ls_group *group, void *unused)
{
    const int rank = ls_group_rank(group), size = ls_group_size(group);
    ls_request *all[3 * LENGTHS + 1] = {NULL};
    int32_t *sent[LENGTHS], *sums[LENGTHS], *got[LENGTHS];
    (void)unused;
    for (int k = 0; k < LENGTHS; k++) {
        const size_t n = lengths[k];
        sent[k] = values_of(rank, n);
        sums[k] = integers(n);
        got[k] = integers(n);
        CHECK_OK(
            ls_irecv(group, got[k], n, LS_I32, left_of(group), k, &all[3 * k]));
        CHECK_OK(ls_iall_reduce(group, sent[k], sums[k], n, LS_I32,
                                LS_REDUCE_SUM, &all[3 * k + 1]));
        CHECK_OK(ls_isend(group, sent[k], n, LS_I32, right_of(group), k,
                          &all[3 * k + 2]));
    }
    CHECK_OK(ls_wait_all(all, 3 * LENGTHS + 1)); /* the last is none */
    for (int i = 0; i < 3 * LENGTHS; i++) {
        check_over(all[i]);
        ls_request_free(&all[i]);
    }
    for (int k = 0; k < LENGTHS; k++) {
        check_values(got[k], left_of(group), lengths[k]);
        check_sums(sums[k], size, lengths[k]);
        free(sent[k]), free(sums[k]), free(got[k]);
    }
    CHECK_OK(ls_wait_all(all, 3 * LENGTHS + 1));
}

static void all_are_waited_for(void **state)
{
    (void)state;
    everywhere(wait_for_all);
}

/* Rank 0 cannot take part in the sum between two others. */
static void refuse_the_middle(ls_group *group, void *unused)
{
    const int rank = ls_group_rank(group), size = ls_group_size(group);
    ls_request *all[3] = {NULL};
    int32_t *const sent = values_of(rank, LONG);
    int32_t *const sums = integers(LONG), *const more = integers(7);
    int32_t lost[7];
    (void)unused;
    CHECK_OK(ls_iall_reduce(group, sent, sums, LONG, LS_I32, LS_REDUCE_SUM,
                            &all[0]));
    const ls_status refused =
        ls_iall_reduce(group, rank == 0 ? NULL : sent, lost, 7, LS_I32,
                       LS_REDUCE_SUM, &all[1]);
    CHECK(refused == (rank == 0 ? LS_ERR_ARGUMENT : LS_OK));
    CHECK_OK(
        ls_iall_reduce(group, sent, more, 7, LS_I32, LS_REDUCE_SUM, &all[2]));
    if (rank == 0) {
        CHECK_OK(ls_wait_all(all, 3));
    } else {
        CHECK(ls_wait_all(all, 3) == LS_ERR_ARGUMENT);
        CHECK(strstr(ls_last_error(), "rank 0 cannot take part in") != NULL);
    }
    for (int i = 0; i < 3; i++) {
        if (all[i] != NULL)
            check_over(all[i]);
        ls_request_free(&all[i]);
    }
    check_sums(sums, size, LONG);
    check_sums(more, size, 7);
    CHECK_OK(ls_barrier(group)); /* the group goes on */
    free(sent), free(sums), free(more);
}

static void one_that_is_refused_does_not_stop_the_others(void **state)
{
    (void)state;
    everywhere(refuse_the_middle);
}

/* A group that goes on without the victim, NULL for that. */
static ls_group *without_victim(ls_group *group)
{
    ls_group *part = NULL;
    CHECK_OK(ls_group_split(group, ls_group_rank(group) == VICTIM ? -1 : 0, 0,
                            &part));
    return part;
}

/* The groups that failed and those that go on are taken in turn. */
static void lose_one_group(ls_group *group, void *unused)
{
    ls_group *part = without_victim(group);
    ls_request *all[4] = {NULL};
    int32_t x[4] = {1, 1, 1, 1}, y[4] = {0};
    (void)unused;
    if (ls_group_rank(group) != VICTIM) {
        CHECK_OK(ls_irecv(group, &y[0], 1, LS_I32, VICTIM, 0, &all[0]));
        CHECK_OK(ls_irecv(group, &y[2], 1, LS_I32, VICTIM, 1, &all[2]));
    }
    CHECK_OK(ls_barrier(group));
    if (ls_group_rank(group) == VICTIM)
        kill(getpid(), SIGKILL);
    CHECK_OK(
        ls_iall_reduce(part, &x[1], &y[1], 1, LS_I32, LS_REDUCE_SUM, &all[1]));
    CHECK_OK(
        ls_iall_reduce(part, &x[3], &y[3], 1, LS_I32, LS_REDUCE_SUM, &all[3]));
    CHECK(ls_wait_all(all, 4) == LS_ERR_PEER_DEAD);
    CHECK(strstr(ls_last_error(), "rank 1") != NULL);
    CHECK(y[1] == 2 && y[3] == 2);
    check_over(all[1]);
    check_over(all[3]);
    for (int i = 0; i < 4; i++)
        ls_request_free(&all[i]);
    CHECK_OK(ls_barrier(part));
    ls_group_close(&part);
}

static void the_other_groups_are_waited_for(void **state)
{
    pid_t pids[3];
    (void)state;
    start_processes(3, lose_one_group, NULL, pids);
    for (int r = 0; r < 3; r++)
        assert_true((wait_process(pids[r]) == 0) == (r != VICTIM));
}

/* ---- one after the other ------------------------------------------------- */

enum { ROUNDS = 4 };

/* The sender decides the order of arrival. */
static void wait_for_each(ls_group *group, void *unused)
{
    static const int order[ROUNDS] = {2, 0, 3, 1};
    ls_request *all[ROUNDS] = {NULL}, *send = NULL;
    int32_t *const sent = values_of(ls_group_rank(group), LONG);
    int32_t *got[ROUNDS];
    size_t done = 77;
    (void)unused;
    for (int k = 0; k < ROUNDS; k++) {
        got[k] = integers(lengths[k]);
        CHECK_OK(ls_irecv(group, got[k], lengths[k], LS_I32, left_of(group), k,
                          &all[k]));
    }
    for (int k = 0; k < ROUNDS; k++) {
        const int now = order[k];
        CHECK_OK(ls_isend(group, sent, lengths[now], LS_I32, right_of(group),
                          now, &send));
        CHECK_OK(ls_wait_any(all, ROUNDS, &done));
        CHECK((int)done == now);
        check_over(all[now]);
        check_values(got[now], left_of(group), lengths[now]);
        ls_request_free(&all[now]);
        CHECK_OK(ls_wait(send));
        ls_request_free(&send);
        CHECK_OK(ls_barrier(group));
    }
    CHECK_OK(ls_wait_any(all, ROUNDS, &done));
    CHECK(done == ROUNDS);
    for (int k = 0; k < ROUNDS; k++)
        free(got[k]);
    free(sent);
}

static void each_is_waited_for(void **state)
{
    (void)state;
    everywhere(wait_for_each);
}

/* The first request is in a group in which nothing comes meanwhile. */
static void wait_in_two_groups(ls_group *group, void *unused)
{
    ls_group *other = NULL;
    ls_request *all[3] = {NULL}, *send = NULL;
    int32_t *const sent = values_of(ls_group_rank(group), LONG);
    int32_t *const sums = integers(LONG);
    int32_t got = -1;
    size_t done = 77;
    (void)unused;
    CHECK_OK(ls_group_split(group, 0, 0, &other));
    CHECK_OK(ls_irecv(group, &got, 1, LS_I32, left_of(group), 5, &all[0]));
    CHECK_OK(ls_iall_reduce(other, sent, sums, LONG, LS_I32, LS_REDUCE_SUM,
                            &all[2]));
    CHECK_OK(ls_wait_any(all, 3, &done));
    CHECK(done == 2);
    check_sums(sums, ls_group_size(group), LONG);
    ls_request_free(&all[2]);
    CHECK_OK(ls_barrier(other));
    CHECK_OK(ls_isend(group, sent, 1, LS_I32, right_of(group), 5, &send));
    CHECK_OK(ls_wait_any(all, 3, &done));
    CHECK(done == 0 && got == value(left_of(group), 0));
    CHECK_OK(ls_wait(send));
    ls_request_free(&all[0]);
    ls_request_free(&send);
    ls_group_close(&other);
    free(sent), free(sums);
}

static void requests_of_two_groups_are_waited_for(void **state)
{
    (void)state;
    everywhere(wait_in_two_groups);
}

/* Where only the second group fails, and only its request is over. */
static void wait_for_the_dead(ls_group *group, void *unused)
{
    ls_group *part = without_victim(group);
    ls_request *all[2] = {NULL}, *send = NULL;
    int32_t x = 7, y = 0, lost = 0;
    size_t done = 77;
    (void)unused;
    if (ls_group_rank(group) != VICTIM)
        CHECK_OK(ls_irecv(group, &lost, 1, LS_I32, VICTIM, 0, &all[1]));
    CHECK_OK(ls_barrier(group));
    if (ls_group_rank(group) == VICTIM)
        kill(getpid(), SIGKILL);
    CHECK_OK(ls_irecv(part, &y, 1, LS_I32, left_of(part), 0, &all[0]));
    CHECK(ls_wait_any(all, 2, &done) == LS_ERR_PEER_DEAD);
    CHECK(done == 1 && strstr(ls_last_error(), "rank 1") != NULL);
    ls_request_free(&all[1]);
    CHECK_OK(ls_barrier(part)); /* nothing is sent before */
    CHECK_OK(ls_isend(part, &x, 1, LS_I32, right_of(part), 0, &send));
    CHECK_OK(ls_wait_any(all, 2, &done));
    CHECK(done == 0 && y == 7);
    CHECK_OK(ls_wait(send));
    ls_request_free(&all[0]);
    ls_request_free(&send);
    ls_group_close(&part);
}

static void the_one_that_fails_is_named(void **state)
{
    pid_t pids[3];
    (void)state;
    start_processes(3, wait_for_the_dead, NULL, pids);
    for (int r = 0; r < 3; r++)
        assert_true((wait_process(pids[r]) == 0) == (r != VICTIM));
}

enum { GROUPS = 20 };

/* Rank 0 waits in GROUPS groups for messages that rank 1 never sends. */
typedef struct silence {
    atomic_bool over;
    double seconds; /* that rank 0 has waited */
} silence;

static double time_in_vain(ls_group *const *groups)
{
    ls_request *all[GROUPS] = {NULL};
    int32_t lost[GROUPS];
    size_t done = 77;
    for (int i = 0; i < GROUPS; i++)
        CHECK_OK(ls_irecv(groups[i], &lost[i], 1, LS_I32, 1, 0, &all[i]));
    const double begin = lsi_clock_seconds();
    CHECK(ls_wait_any(all, GROUPS, &done) == LS_ERR_TIMEOUT);
    const double seconds = lsi_clock_seconds() - begin;
    CHECK(done < GROUPS);
    for (int i = 0; i < GROUPS; i++)
        ls_request_free(&all[i]);
    return seconds;
}

static void wait_in_silence(ls_group *group, void *argument)
{
    silence *const s = argument;
    ls_group *groups[GROUPS] = {NULL};
    for (int i = 0; i < GROUPS; i++)
        CHECK_OK(ls_group_split(group, 0, 0, &groups[i]));
    for (int i = 0; i < GROUPS; i++)
        CHECK_OK(ls_group_set_timeout(groups[i], 0.5));
    if (ls_group_rank(group) == 0) {
        s->seconds = time_in_vain(groups);
        atomic_store(&s->over, true);
    }
    while (!atomic_load(&s->over))
        sched_yield();
    for (int i = 0; i < GROUPS; i++)
        ls_group_close(&groups[i]);
}

static double seconds_in_silence(void)
{
    silence s = {.over = false};
    run_threads(2, wait_in_silence, &s);
    CHECK(s.seconds > 0.4);
    return s.seconds;
}

/* Patience ends at the same time in all groups, however many there are. */
static void a_timeout_does_not_grow_with_the_groups(void **state)
{
    (void)state;
    CHECK_QUICK(seconds_in_silence(), 1.5);
}

/* ---- what is not in flight ----------------------------------------------- */

static void wait_for_idle(ls_group *group, void *unused)
{
    ls_request *all[2] = {NULL};
    int32_t x = 1, y = 0;
    size_t done = 77;
    (void)unused;
    CHECK_OK(ls_ibarrier(group, &all[0]));
    CHECK_OK(
        ls_all_reduce_plan(group, &x, &y, 1, LS_I32, LS_REDUCE_SUM, &all[1]));
    CHECK(ls_wait_all(all, 2) == LS_ERR_STATE);
    CHECK(strstr(ls_last_error(), "ls_wait_all: request 1 of 2") != NULL);
    CHECK(ls_wait_any(all, 2, &done) == LS_ERR_STATE);
    CHECK(strstr(ls_last_error(), "ls_wait_any: request 1 of 2") != NULL);
    CHECK(done == 77);
    CHECK_OK(ls_wait(all[0])); /* neither has waited for it */
    CHECK_OK(ls_start(all[1]));
    CHECK_OK(ls_wait_all(&all[1], 1));
    CHECK(y == ls_group_size(group));
    CHECK_OK(ls_start(all[1])); /* planned: once more */
    CHECK_OK(ls_wait_any(&all[1], 1, &done));
    CHECK(done == 0);
    ls_request_free(&all[0]);
    ls_request_free(&all[1]);
}

static void what_is_not_in_flight_is_refused(void **state)
{
    (void)state;
    run_threads(1, wait_for_idle, NULL);
    run_threads(3, wait_for_idle, NULL);
}

static void wait_twice(ls_group *group, void *unused)
{
    int32_t x = 1, y = 0;
    ls_request *request = NULL;
    (void)unused;
    CHECK_OK(ls_iall_reduce(group, &x, &y, 1, LS_I32, LS_REDUCE_SUM, &request));
    ls_request *const all[] = {request, NULL, request};
    CHECK_OK(ls_wait_all(all, 3));
    CHECK(y == ls_group_size(group));
    CHECK(ls_wait_all(all, 3) == LS_ERR_STATE);
    ls_request_free(&request);
}

static void one_request_twice_is_waited_for_once(void **state)
{
    (void)state;
    run_threads(1, wait_twice, NULL);
    run_threads(3, wait_twice, NULL);
}

/* A child has no part in its parent's requests. */
static void wait_in_child(ls_group *group, void *unused)
{
    ls_request *receive = NULL;
    int32_t got = 0, x = 3;
    size_t done = 77;
    (void)unused;
    CHECK_OK(ls_irecv(group, &got, 1, LS_I32, left_of(group), 0, &receive));
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        const bool right = ls_wait_any(&receive, 1, &done) == LS_ERR_STATE &&
                           done == 77 &&
                           ls_wait_all(&receive, 1) == LS_ERR_STATE;
        _exit(right ? 0 : 1);
    }
    CHECK(wait_process(child) == 0);
    CHECK_OK(ls_send(group, &x, 1, LS_I32, right_of(group), 0));
    CHECK_OK(ls_wait_all(&receive, 1));
    CHECK(got == 3);
    ls_request_free(&receive);
}

static void a_child_waits_for_none(void **state)
{
    (void)state;
    run_processes(2, wait_in_child, NULL);
}

/* ---- both ways ----------------------------------------------------------- */

/* More messages than a rank could send before it receives. */
static void pass_on(ls_group *group, void *unused)
{
    const int rank = ls_group_rank(group);
    int32_t *const sent = values_of(rank, LONG);
    int32_t *const got = integers(LONG);
    (void)unused;
    for (int k = 0; k < LENGTHS; k++) {
        /* Each rank sends another number. */
        const size_t n = lengths[(k + rank) % LENGTHS];
        const size_t n_left = lengths[(k + left_of(group)) % LENGTHS];
        memset(got, 0, (LONG + 1) * sizeof(*got));
        CHECK_OK(ls_sendrecv(group, sent, n, right_of(group), got, n_left,
                             k % 2 == 0 ? left_of(group) : LS_ANY_RANK, LS_I32,
                             k));
        check_values(got, left_of(group), n_left);
        CHECK(got[n_left] == 0);
    }
    free(sent), free(got);
}

static void messages_go_round(void **state)
{
    (void)state;
    everywhere(pass_on);
}

static void check_wrong(ls_group *group, void *unused)
{
    float x[8] = {0};
    const int size = ls_group_size(group), r = right_of(group);
    (void)unused;
    CHECK(ls_sendrecv(group, x, 4, r, x + 3, 4, left_of(group), LS_F32, 0) ==
          LS_ERR_ARGUMENT);
    CHECK(strcmp(ls_last_error(), "ls_sendrecv: the send and recv buffers "
                                  "overlap") == 0);
    CHECK(ls_sendrecv(group, x, 1, size, x + 4, 1, r, LS_F32, 0) ==
          LS_ERR_ARGUMENT);
    CHECK(strstr(ls_last_error(), "ls_sendrecv: send: rank "));
    CHECK(ls_sendrecv(group, x, 1, LS_ANY_RANK, x + 4, 1, r, LS_F32, 0) ==
          LS_ERR_ARGUMENT);
    CHECK(ls_sendrecv(group, x, 1, r, x + 4, 1, r, LS_F32, LS_ANY_TAG) ==
          LS_ERR_ARGUMENT);
    CHECK(strstr(ls_last_error(), "the tag is -1") != NULL);
    CHECK(ls_sendrecv(group, x, 1, r, x + 4, 1, r, (ls_dtype)99, 0) ==
          LS_ERR_DTYPE);
    CHECK_OK(ls_sendrecv(group, x, 0, r, x, 0, left_of(group), LS_F32, 0));
    CHECK_OK(ls_barrier(group));
}

static void wrong_arguments_are_refused(void **state)
{
    (void)state;
    run_threads(1, check_wrong, NULL);
    run_threads(3, check_wrong, NULL);
}

/* Rank 1 sends more than rank 0 asks for. */
static void differ(ls_group *group, void *unused)
{
    float x[5] = {0}, y[5];
    const int other = 1 - ls_group_rank(group);
    (void)unused;
    const size_t n = ls_group_rank(group) == 1 ? 5 : 3;
    const ls_status status =
        ls_sendrecv(group, x, n, other, y, 3, other, LS_F32, 2);
    CHECK(status == LS_ERR_MISMATCH ||
          (status == LS_OK && ls_group_rank(group) == 1));
    CHECK(ls_barrier(group) == LS_ERR_MISMATCH);
}

static void a_mismatch_fails_the_group(void **state)
{
    (void)state;
    run_threads(2, differ, NULL);
    run_processes(2, differ, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_are_waited_for),
        cmocka_unit_test(one_that_is_refused_does_not_stop_the_others),
        cmocka_unit_test(the_other_groups_are_waited_for),
        cmocka_unit_test(each_is_waited_for),
        cmocka_unit_test(requests_of_two_groups_are_waited_for),
        cmocka_unit_test(the_one_that_fails_is_named),
        cmocka_unit_test(a_timeout_does_not_grow_with_the_groups),
        cmocka_unit_test(what_is_not_in_flight_is_refused),
        cmocka_unit_test(one_request_twice_is_waited_for_once),
        cmocka_unit_test(a_child_waits_for_none),
        cmocka_unit_test(messages_go_round),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(a_mismatch_fails_the_group),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

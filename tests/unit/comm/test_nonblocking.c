/*
 * Collectives that return a request, many in flight, with whole numbers whose
 * results are exact; and ending all waiting.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ranks.h"

static const int rank_counts[] = {1, 2, 3, 5, 8};
static const size_t counts[] = {0, 1, 7, 5000, 100003};

enum {
    RANK_COUNTS = sizeof(rank_counts) / sizeof(rank_counts[0]),
    COUNTS = sizeof(counts) / sizeof(counts[0]),
    OPERATIONS = 8 /* that move something */
};

/* The value of rank r for rank `to` at i. */
static int32_t value(int rank, int to, size_t i)
{
    return (int32_t)(i % 1009) * 7 + rank * 13 + to * 3;
}

typedef struct job {
    ls_group *group;
    int rank, size, root;
    size_t n;
    int32_t *send, *recv[OPERATIONS];
    ls_request *requests[OPERATIONS + 1];
} job;

static int32_t sum(const job *j, int to, size_t i)
{
    int32_t all = 0;
    for (int r = 0; r < j->size; r++)
        all += value(r, to, i);
    return all;
}

static void start_all(job *j)
{
    ls_group *const g = j->group;
    const size_t n = j->n;
    for (size_t i = 0; i < n; i++)
        j->recv[0][i] = j->rank == j->root ? value(j->root, 0, i) : -1;
    CHECK_OK(ls_ibroadcast(g, j->recv[0], n, LS_I32, j->root, &j->requests[0]));
    CHECK_OK(ls_iall_reduce(g, j->send, j->recv[1], n, LS_I32, LS_REDUCE_SUM,
                            &j->requests[1]));
    CHECK_OK(ls_ireduce(g, j->send, j->recv[2], n, LS_I32, LS_REDUCE_MAX,
                        j->root, &j->requests[2]));
    CHECK_OK(
        ls_iall_gather(g, j->send, j->recv[3], n, LS_I32, &j->requests[3]));
    CHECK_OK(ls_ireduce_scatter(g, j->send, j->recv[4], n, LS_I32,
                                LS_REDUCE_SUM, &j->requests[4]));
    CHECK_OK(ls_igather(g, j->send, j->rank == j->root ? j->recv[5] : NULL, n,
                        LS_I32, j->root, &j->requests[5]));
    CHECK_OK(ls_iscatter(g, j->rank == j->root ? j->send : NULL, j->recv[6], n,
                         LS_I32, j->root, &j->requests[6]));
    CHECK_OK(
        ls_iall_to_all(g, j->send, j->recv[7], n, LS_I32, &j->requests[7]));
    CHECK_OK(ls_ibarrier(g, &j->requests[8]));
}

static void check_blocks(const job *j, const int32_t *got, bool turned)
{
    for (int r = 0; r < j->size; r++)
        for (size_t i = 0; i < j->n; i++)
            CHECK(got[(size_t)r * j->n + i] ==
                  value(r, turned ? j->rank : 0, i));
}

static void check_all(const job *j)
{
    for (size_t i = 0; i < j->n; i++) {
        CHECK(j->recv[0][i] == value(j->root, 0, i));
        CHECK(j->recv[1][i] == sum(j, 0, i));
        CHECK(j->rank != j->root || j->recv[2][i] == value(j->size - 1, 0, i));
        CHECK(j->recv[4][i] == sum(j, j->rank, i));
        CHECK(j->recv[6][i] == value(j->root, j->rank, i));
    }
    check_blocks(j, j->recv[3], false);
    if (j->rank == j->root)
        check_blocks(j, j->recv[5], false);
    check_blocks(j, j->recv[7], true);
}

/* In one of three orders; the queue has its own. */
static void finish_all(job *j, int how)
{
    int32_t one = 1, all = 0;
    if (how == 2) /* what is called now comes after all that is in flight */
        CHECK_OK(ls_all_reduce(j->group, &one, &all, 1, LS_I32, LS_REDUCE_SUM));
    for (int i = 0; i <= OPERATIONS; i++) {
        ls_request **request = &j->requests[how == 0 ? OPERATIONS - i : i];
        ls_status status = LS_IN_PROGRESS;
        while (how == 1 && status == LS_IN_PROGRESS)
            status = ls_test(*request);
        if (how != 1)
            status = ls_wait(*request);
        CHECK(status == LS_OK);
        CHECK(ls_start(*request) == LS_ERR_ARGUMENT); /* good for once */
        ls_request_free(request);
    }
    CHECK(how != 2 || all == j->size);
}

static int32_t *integers(size_t n)
{
    int32_t *const made = calloc(n + 1, sizeof(*made));
    CHECK(made != NULL);
    return made;
}

static void many_in_flight(ls_group *group, void *argument)
{
    const size_t n = *(const size_t *)argument;
    job j = {.group = group,
             .rank = ls_group_rank(group),
             .size = ls_group_size(group),
             .n = n};
    const size_t room = n * (size_t)j.size;
    j.send = integers(room);
    for (int r = 0; r < j.size; r++)
        for (size_t i = 0; i < n; i++)
            j.send[(size_t)r * n + i] = value(j.rank, r, i);
    for (int o = 0; o < OPERATIONS; o++)
        j.recv[o] = integers(room);
    for (int how = 0; how < 3; how++) {
        j.root = how % j.size;
        start_all(&j);
        finish_all(&j, how);
        check_all(&j);
    }
    for (int o = 0; o < OPERATIONS; o++)
        free(j.recv[o]);
    free(j.send);
}

static void on_threads(void **state)
{
    (void)state;
    for (int s = 0; s < RANK_COUNTS; s++)
        for (int c = 0; c < COUNTS; c++) {
            size_t n = counts[c];
            run_threads(rank_counts[s], many_in_flight, &n);
        }
}

static void on_processes(void **state)
{
    (void)state;
    for (int s = 0; s < RANK_COUNTS; s++)
        for (int c = 0; c < COUNTS; c++) {
            size_t n = counts[c];
            run_processes(rank_counts[s], many_in_flight, &n);
        }
}

/* One that cannot take part fails on all, and the group goes on. */
static void refuse_one(ls_group *group, void *argument)
{
    float x = 1, y = 0;
    ls_request *request = NULL;
    (void)argument;
    const bool to_blame = ls_group_rank(group) == 1;
    ls_status status = ls_iall_reduce(group, to_blame ? NULL : &x, &y, 1,
                                      LS_F32, LS_REDUCE_SUM, &request);
    if (status == LS_OK)
        status = ls_wait(request);
    CHECK(status == LS_ERR_ARGUMENT);
    CHECK(strstr(ls_last_error(), "send buffer is NULL") != NULL);
    CHECK(to_blame || strstr(ls_last_error(), "rank 1 ") != NULL);
    ls_request_free(&request);
    CHECK_OK(ls_all_reduce(group, &x, &y, 1, LS_F32, LS_REDUCE_SUM));
    CHECK(y == (float)ls_group_size(group));
}

static void refused(void **state)
{
    (void)state;
    run_threads(3, refuse_one, NULL);
    run_processes(2, refuse_one, NULL);
}

enum { PARTS = 3 };

/* Comes when each of the others says that it has waited a few times. */
static void come_late(ls_group *group)
{
    float x = 1;
    for (int r = 1; r < ls_group_size(group); r++)
        CHECK_OK(ls_recv(group, &(float){0}, 1, LS_F32, r, 0));
    CHECK_OK(ls_all_reduce(group, &x, &x, 1, LS_F32, LS_REDUCE_SUM));
}

/* Rank 0 comes when the others have waited a few times, or not at all. */
static void wait_in_parts(ls_group *group, void *argument)
{
    const bool comes = argument == NULL;
    const int rank = ls_group_rank(group);
    float x = 1, word = 0;
    int parts = 0;
    ls_request *request = NULL;
    ls_status status = LS_IN_PROGRESS;
    CHECK_OK(ls_group_set_timeout(group, comes || rank == 0 ? 60 : 0.5));
    if (rank == 0) {
        if (comes)
            come_late(group);
        while (!comes && ls_recv(group, &x, 1, LS_F32, 1, 0) == LS_OK)
            ;
        return;
    }
    CHECK_OK(ls_iall_reduce(group, &x, &x, 1, LS_F32, LS_REDUCE_SUM, &request));
    CHECK(ls_wait_for(request, -1) == LS_ERR_ARGUMENT);
    while ((status = ls_wait_for(request, 0.02)) == LS_IN_PROGRESS)
        if (++parts == PARTS && comes)
            CHECK_OK(ls_send(group, &word, 1, LS_F32, 0, 0));
    CHECK(status == (comes ? LS_OK : LS_ERR_TIMEOUT));
    CHECK(parts > 0 && (!comes || x == (float)ls_group_size(group)));
    ls_request_free(&request);
}

static void waited_in_parts(void **state)
{
    (void)state;
    run_threads(3, wait_in_parts, NULL);
    run_processes(2, wait_in_parts, NULL);
    run_threads(2, wait_in_parts, &(int){1});
}

/* ---- abort --------------------------------------------------------------- */

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

enum { ABORTS = 1 };

static ls_group *of_handler;

static void on_alarm(int number)
{
    (void)number;
    ls_group_abort(of_handler);
}

static void *abort_soon(void *group)
{
    usleep(50000); /* the others are asleep by then, or on their way */
    ls_group_abort(group);
    return NULL;
}

/* Rank 0 never comes; the others wait for it until one ends that. */
static void wait_for_nobody(ls_group *group, void *argument)
{
    const bool by_signal = argument != NULL;
    const int rank = ls_group_rank(group);
    float x = 1;
    pthread_t other;
    bool joins = false;
    if (rank == ABORTS && by_signal) {
        struct sigaction action = {.sa_handler = on_alarm};
        of_handler = group;
        CHECK(sigaction(SIGALRM, &action, NULL) == 0);
        ualarm(50000, 0);
    } else if (rank == ABORTS) {
        joins = pthread_create(&other, NULL, abort_soon, group) == 0;
        CHECK(joins);
    }
    const double then = seconds();
    ls_status status = LS_OK;
    if (rank != 0)
        status = ls_all_reduce(group, &x, &x, 1, LS_F32, LS_REDUCE_SUM);
    else
        while ((status = ls_recv(group, &x, 1, LS_F32, ABORTS, 0)) == LS_OK)
            ;
    CHECK(status == LS_ERR_ABORTED);
    CHECK(strstr(ls_last_error(), rank == ABORTS ? "this rank, 1, has aborted"
                                                 : "rank 1 (host ") != NULL);
    CHECK(seconds() - then < 10); /* of a timeout of 300 */
    CHECK(ls_barrier(group) == LS_ERR_ABORTED);
    if (joins)
        pthread_join(other, NULL);
}

static void aborted(void **state)
{
    (void)state;
    ls_group_abort(NULL);
    run_threads(3, wait_for_nobody, NULL);
    run_processes(3, wait_for_nobody, NULL);
    run_processes(2, wait_for_nobody, &(int){1});
}

/* Requests end, too, and are freed without waiting. */
static void abort_requests(ls_group *group, void *argument)
{
    float x = 1;
    ls_request *request = NULL;
    (void)argument;
    if (ls_group_rank(group) == 0) {
        usleep(20000);
        ls_group_abort(group);
        return;
    }
    const ls_status started =
        ls_iall_reduce(group, &x, &x, 1, LS_F32, LS_REDUCE_SUM, &request);
    CHECK(started == LS_OK || started == LS_ERR_ABORTED);
    CHECK(request == NULL || ls_wait(request) == LS_ERR_ABORTED);
    ls_request_free(&request);
}

static void aborted_in_flight(void **state)
{
    (void)state;
    run_threads(3, abort_requests, NULL);
    run_processes(2, abort_requests, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_threads), cmocka_unit_test(on_processes),
        cmocka_unit_test(refused),    cmocka_unit_test(waited_in_parts),
        cmocka_unit_test(aborted),    cmocka_unit_test(aborted_in_flight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * A signal handler that aborts a group, as of Ctrl-C, ends whatever call waits
 * in it, at once.
 */
#include "testing.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "ranks.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static ls_group *of_handler;
static _Atomic double aborted_at;

static void on_alarm(int number)
{
    (void)number;
    atomic_store(&aborted_at, now());
    ls_group_abort(of_handler); /* NOLINT(bugprone-signal-handler) */
}

/* Each call waits for rank 0, which does not come. */
enum { CALLS = 23, BIG = 1 << 20 };

static float x[BIG], y[2 * BIG];

static ls_status call_fixed(int which, ls_group *g)
{
    switch (which) {
    case 0:
        return ls_barrier(g);
    case 1:
        return ls_broadcast(g, x, 9, LS_F32, 0);
    case 2:
        return ls_all_reduce(g, x, x, 9, LS_F32, LS_REDUCE_SUM);
    case 3:
        return ls_all_reduce(g, x, x, BIG, LS_F32, LS_REDUCE_SUM);
    case 4:
        return ls_reduce(g, x, y, 9, LS_F32, LS_REDUCE_SUM, 1);
    case 5:
        return ls_all_gather(g, x, y, 9, LS_F32);
    case 6:
        return ls_reduce_scatter(g, y, x, 9, LS_F32, LS_REDUCE_SUM);
    case 7:
        return ls_gather(g, x, y, 9, LS_F32, 1);
    case 8:
        return ls_scatter(g, y, x, 9, LS_F32, 0);
    default:
        return ls_all_to_all(g, x, y, 9, LS_F32);
    }
}

static ls_status call_request(int which, ls_request *request)
{
    ls_status status = LS_OK;
    if (which == 20)
        return ls_wait(request);
    if (which == 21)
        return ls_wait_for(request, 30);
    do
        status = ls_test(request);
    while (status == LS_IN_PROGRESS);
    return status;
}

static ls_status call(int which, ls_group *g)
{
    static const size_t counts[2] = {3, 5};
    size_t sizes[2];
    void *data = NULL;
    ls_group *made = NULL;
    ls_request *request = NULL;
    switch (which) {
    case 10:
        return ls_all_gather_bytes(g, x, 9, sizes, &data);
    case 11:
        return ls_all_gatherv(g, x, 5, y, counts, LS_F32);
    case 12:
        return ls_reduce_scatterv(g, x, y, counts, LS_F32, LS_REDUCE_SUM);
    case 13:
        return ls_all_to_allv(g, x, counts, y, counts, LS_F32);
    case 14:
        return ls_send(g, x, BIG, LS_F32, 0, 0);
    case 15:
        return ls_recv(g, x, 9, LS_F32, 0, 0);
    case 16:
        return ls_group_split(g, 0, 0, &made);
    case 17:
        return ls_shared_alloc(g, 4096, &data);
    case 18:
        return ls_group_select(g, "");
    case 19:
        return ls_all_reduce_plan(g, x, x, 9, LS_F32, LS_REDUCE_SUM, &request);
    default:
        if (which < 10)
            return call_fixed(which, g);
        CHECK_OK(ls_iall_reduce(g, x, x, 9, LS_F32, LS_REDUCE_SUM, &request));
    }
    const ls_status status = call_request(which, request);
    ls_request_free(&request);
    return status;
}

/* Seconds from the abort to the call's return. */
static double abort_call(int which, ls_group *group)
{
    of_handler = group;
    ualarm(15000, 0);
    CHECK(call(which, group) == LS_ERR_ABORTED);
    return now() - atomic_load(&aborted_at);
}

static int told[2]; /* rank 0 that the call is over */

/* Five times, as the machine may have other things to do at one of them. */
static void interrupt(int rank, int size)
{
    char name[64];
    (void)signal(SIGALRM, on_alarm);
    for (int which = 0; which < CALLS; which++) {
        double least = 1e9;
        for (int i = 0; i < 5; i++) {
            snprintf(name, sizeof(name), "abort %ld %d %d", (long)getppid(),
                     which, i);
            ls_group *group = NULL;
            CHECK_OK(ls_group_open(&group, name, rank, size, NULL, 30));
            if (rank == 1) {
                const double took = abort_call(which, group);
                CHECK(write(told[1], "", 1) == 1);
                least = took < least ? took : least;
            } else {
                char byte;
                CHECK(read(told[0], &byte, 1) == 1);
            }
            ls_group_close(&group);
            if (rank == 1 && i == 4 && !(least < 0.1))
                fprintf(stderr, "call %d: %g s\n", which, least);
        }
        CHECK(rank == 0 || least < 0.1);
    }
}

static void a_signal_ends_every_wait(void **state)
{
    pid_t pids[2];
    (void)state;
    assert_int_equal(pipe(told), 0);
    for (int r = 0; r < 2; r++) {
        pids[r] = fork();
        assert_true(pids[r] >= 0);
        if (pids[r] != 0)
            continue;
        interrupt(r, 2);
        _exit(0);
    }
    for (int r = 0; r < 2; r++)
        assert_int_equal(wait_process(pids[r]), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_signal_ends_every_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

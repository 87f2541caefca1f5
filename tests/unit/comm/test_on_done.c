/*
 * Functions that are called when a request is done: once, with its status, by
 * whoever finds it so, and free to use the library.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "comm/state/state.h"
#include "nodes.h"

typedef struct call {
    ls_group *group;
    int times, order;
    ls_status status;
    char text[256];
} call;

static void note(void *context, ls_status status)
{
    call *c = context;
    c->times++;
    c->status = status;
    snprintf(c->text, sizeof(c->text), "%s", ls_last_error());
}

static void everywhere(rank_fn *fn)
{
    static const int one_and_two[] = {1, 2};
    run_threads(1, fn, NULL);
    run_threads(3, fn, NULL);
    run_processes(2, fn, NULL);
    run_nodes(one_and_two, 2, fn, NULL);
}

/* By a wait for another request, a test, and at once. */
static void called_once(ls_group *group, void *argument)
{
    const int size = ls_group_size(group);
    ls_request *requests[3] = {NULL};
    call calls[3] = {{.times = 0}};
    float x[3][1000];
    (void)argument;
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 1000; k++)
            x[i][k] = (float)i;
        CHECK_OK(ls_iall_reduce(group, x[i], x[i], 1000, LS_F32, LS_REDUCE_SUM,
                                &requests[i]));
    }
    for (int i = 0; i < 2; i++)
        CHECK_OK(ls_request_on_done(requests[i], note, &calls[i]));
    CHECK(ls_request_on_done(requests[0], note, &calls[0]) == LS_ERR_STATE);
    CHECK_OK(ls_wait(requests[2])); /* those before are done, then */
    CHECK(calls[0].times == 1 && calls[1].times == 1);
    CHECK(calls[0].status == LS_OK && calls[1].status == LS_OK);
    CHECK_OK(ls_wait(requests[1]));
    CHECK_OK(ls_test(requests[0]));
    CHECK(ls_request_on_done(requests[2], note, &calls[2]) == LS_ERR_STATE);
    CHECK(calls[0].times == 1 && calls[1].times == 1);
    for (int i = 0; i < 3; i++) {
        CHECK(x[i][999] == (float)(i * size));
        ls_request_free(&requests[i]);
    }
}

static void each_is_called_once(void **state)
{
    (void)state;
    everywhere(called_once);
}

/* A chain: each starts the next, which is a blocking call, too. */
typedef struct chain {
    ls_group *group;
    ls_request *request;
    int left, sum;
} chain;

static void go_on(void *context, ls_status status)
{
    chain *c = context;
    int32_t one = 1;
    CHECK(status == LS_OK);
    CHECK_OK(ls_all_reduce(c->group, &one, &one, 1, LS_I32, LS_REDUCE_SUM));
    c->sum += one;
    ls_request_free(&c->request);
    if (--c->left == 0)
        return;
    CHECK_OK(ls_ibarrier(c->group, &c->request));
    CHECK_OK(ls_request_on_done(c->request, go_on, c));
}

static void chained(ls_group *group, void *argument)
{
    chain c = {.group = group, .left = 20};
    ls_request *unused = NULL;
    (void)argument;
    CHECK_OK(ls_ibarrier(group, &c.request));
    CHECK_OK(ls_request_on_done(c.request, go_on, &c));
    while (c.left > 0) {
        if (ls_test(c.request) < 0)
            abort();
    }
    CHECK(c.sum == 20 * ls_group_size(group));
    CHECK(unused == NULL);
}

static void they_may_use_the_library(void **state)
{
    (void)state;
    everywhere(chained);
}

/* Everybody waits once, unless it gets no CPU for so long. */
static void wait_in_turns(ls_group *group, useconds_t late_us)
{
    for (int late = 0; late < 2; late++) {
        if ((ls_group_rank(group) == 0) == (late == 0))
            usleep(late_us);
        CHECK_OK(ls_barrier(group));
    }
}

/* While the thread waits in one group, it moves the other one. */
static void in_another_group(ls_group *group, void *argument)
{
    const int size = ls_group_size(group), rank = ls_group_rank(group);
    ls_group *other = NULL;
    ls_request *request = NULL;
    call done = {.times = 0};
    int32_t x = -1;
    (void)argument;
    CHECK_OK(ls_group_split(group, 0, rank, &other));
    CHECK_OK(ls_irecv(other, &x, 1, LS_I32, LS_ANY_RANK, 3, &request));
    CHECK_OK(ls_request_on_done(request, note, &done));
    ls_request *send = NULL;
    CHECK_OK(ls_isend(other, &rank, 1, LS_I32, (rank + 1) % size, 3, &send));
    int32_t least = size == 1;
    for (useconds_t us = 30 * 1000; least == 0 && us < 3000 * 1000; us *= 4) {
        wait_in_turns(group, us);
        CHECK_OK(ls_all_reduce(group, &done.times, &least, 1, LS_I32,
                               LS_REDUCE_MIN));
    }
    CHECK(least == 1);
    CHECK_OK(ls_wait(send));
    CHECK_OK(ls_wait(request));
    CHECK(done.times == 1 && done.status == LS_OK);
    CHECK(x == (rank + size - 1) % size);
    ls_request_free(&request);
    ls_request_free(&send);
    ls_group_close(&other);
}

static void other_groups_are_heard(void **state)
{
    (void)state;
    everywhere(in_another_group);
}

/* One is started again by the function of another that was done before. */
typedef struct restart {
    ls_request *again;
    int started, calls;
} restart;

static void start_again(void *context, ls_status status)
{
    restart *r = context;
    CHECK(status == LS_OK);
    r->started++;
    CHECK_OK(ls_start(r->again));
}

static void count(void *context, ls_status status)
{
    CHECK(status == LS_OK);
    ((restart *)context)->calls++;
}

static void restarted(ls_group *group, void *argument)
{
    const int rank = ls_group_rank(group), size = ls_group_size(group);
    restart r = {.calls = 0};
    ls_request *first = NULL;
    int32_t x[2] = {1, 2}, y[2] = {0, 0};
    int word = 0;
    (void)argument;
    CHECK_OK(ls_all_reduce_plan(group, &x[0], &y[0], 1, LS_I32, LS_REDUCE_SUM,
                                &first));
    CHECK_OK(ls_all_reduce_plan(group, &x[1], &y[1], 1, LS_I32, LS_REDUCE_SUM,
                                &r.again));
    if (rank != 0) /* not before rank 0 has named its functions */
        CHECK_OK(ls_recv(group, &word, 1, LS_I32, 0, 0));
    CHECK_OK(ls_start(first));
    CHECK_OK(ls_start(r.again));
    if (rank == 0) {
        CHECK_OK(ls_request_on_done(first, start_again, &r));
        CHECK_OK(ls_request_on_done(r.again, count, &r));
        for (int peer = 1; peer < size; peer++)
            CHECK_OK(ls_send(group, &word, 1, LS_I32, peer, 0));
    }
    CHECK_OK(ls_wait(r.again)); /* and so for the first */
    if (rank != 0)
        CHECK_OK(ls_start(r.again));
    CHECK_OK(ls_wait(r.again));
    CHECK_OK(ls_wait(first));
    CHECK(rank != 0 || (r.started == 1 && r.calls == 1));
    CHECK(y[0] == size && y[1] == 2 * size);
    ls_request_free(&first);
    ls_request_free(&r.again);
}

static void functions_may_start_again(void **state)
{
    (void)state;
    run_threads(2, restarted, NULL);
    run_processes(3, restarted, NULL);
}

/* A refused collective, and a group that has failed. */
static void failing(ls_group *group, void *argument)
{
    const int size = ls_group_size(group), rank = ls_group_rank(group);
    ls_request *requests[2] = {NULL};
    call calls[2] = {{.times = 0}};
    int32_t x = 0;
    (void)argument;
    for (int i = 0; i < 2; i++) {
        CHECK_OK(ls_irecv(group, &x, 1, LS_I32, rank, i, &requests[i]));
        CHECK_OK(ls_request_on_done(requests[i], note, &calls[i]));
    }
    CHECK_OK(ls_barrier(group));
    if (rank == size - 1)
        ls_group_abort(group);
    CHECK(ls_wait(requests[0]) == LS_ERR_ABORTED);
    for (int i = 0; i < 2; i++) {
        CHECK(calls[i].times == 1 && calls[i].status == LS_ERR_ABORTED);
        CHECK(strstr(calls[i].text, "has aborted") != NULL);
        ls_request_free(&requests[i]);
        CHECK(calls[i].times == 1);
    }
}

static void failures_are_told(void **state)
{
    (void)state;
    everywhere(failing);
}

/* ---- from thread to thread ----------------------------------------------- */

/* A function that goes on while another thread wants what it is about. */
typedef struct slow {
    ls_group *group;
    ls_request *request;
    atomic_int began, waited;
    bool early; /* the other thread was through before the function */
} slow;

static void be_slow(void *context, ls_status status)
{
    slow *s = context;
    const uint64_t mover = atomic_load(&s->group->coprogress.mover);
    int32_t one = 1;
    CHECK(status == LS_OK);
    atomic_store(&s->began, 1);
    /* Until the other thread waits for this one, or is through. */
    while (atomic_load(&s->group->coprogress.mover) == mover &&
           atomic_load(&s->waited) == 0)
        sched_yield();
    for (int i = 0; i < 50 && atomic_load(&s->waited) == 0; i++)
        usleep(1000);
    s->early = atomic_load(&s->waited) != 0;
    CHECK_OK(ls_all_reduce(s->group, &one, &one, 1, LS_I32, LS_REDUCE_SUM));
}

static void *wait_and_free(void *context)
{
    slow *s = context;
    while (atomic_load(&s->began) == 0)
        sched_yield();
    CHECK_OK(ls_wait(s->request));
    atomic_store(&s->waited, 1);
    ls_request_free(&s->request);
    return NULL;
}

static void used_by_two_threads(ls_group *group, void *argument)
{
    const int rank = ls_group_rank(group);
    slow s = {.group = NULL};
    pthread_t thread;
    int32_t x = 1;
    (void)argument;
    CHECK_OK(ls_group_split(group, 0, rank, &s.group));
    if (rank == 0) {
        CHECK_OK(ls_irecv(s.group, &x, 1, LS_I32, 1, 0, &s.request));
        CHECK_OK(ls_request_on_done(s.request, be_slow, &s));
        CHECK(pthread_create(&thread, NULL, wait_and_free, &s) == 0);
        CHECK_OK(ls_barrier(group)); /* then the message is sent */
        while (atomic_load(&s.began) == 0)
            CHECK(ls_iprobe(group, 1, 0, NULL, NULL, NULL) == LS_IN_PROGRESS);
        CHECK(pthread_join(thread, NULL) == 0);
        CHECK(atomic_load(&s.began) == 1 && !s.early);
    } else {
        CHECK_OK(ls_barrier(group));
        CHECK_OK(ls_send(s.group, &x, 1, LS_I32, 0, 0));
        CHECK_OK(ls_all_reduce(s.group, &x, &x, 1, LS_I32, LS_REDUCE_SUM));
        CHECK(x == 2);
    }
    ls_group_close(&s.group);
}

static void another_thread_waits_for_functions(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++)
        run_threads(2, used_by_two_threads, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_is_called_once),
        cmocka_unit_test(they_may_use_the_library),
        cmocka_unit_test(other_groups_are_heard),
        cmocka_unit_test(functions_may_start_again),
        cmocka_unit_test(failures_are_told),
        cmocka_unit_test(another_thread_waits_for_functions),
    };
    return cmocka_run_group_tests_name("on_done", tests, NULL, NULL);
}

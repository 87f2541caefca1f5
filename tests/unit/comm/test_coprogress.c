/*
 * Progress across groups: requests of one group progress while their rank waits
 * in another. Tested on one node and between nodes, without the kernel's sleep
 * on several words, and with groups that move between threads.
 */
#include "testing.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/suspending_clock.h"
#include "comm/core/coprogress.h"
#include "comm/health/failure.h"
#include "nodes.h"

/* ---- the kernel ---------------------------------------------------------- */

enum { SYS_SLEEP_ON_SEVERAL = 449 }; /* futex_waitv, on every machine */

static atomic_bool old_kernel;
static atomic_int sleeps_on_several;

/* The names that the linker's --wrap=syscall asks for. */
long syscall_of_test(long number, ...) __asm__("__wrap_syscall");
long real_syscall(long number, ...) __asm__("__real_syscall");

long syscall_of_test(long number, ...)
{
    long a[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(list, long);
    va_end(list);
    if (number == SYS_SLEEP_ON_SEVERAL) {
        atomic_fetch_add(&sleeps_on_several, 1);
        if (atomic_load(&old_kernel)) {
            errno = ENOSYS;
            return -1;
        }
    }
    return real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* ---- two groups at once -------------------------------------------------- */

/* Far more than a stream holds, and than goes to another node unasked. */
enum { LONG = 300000 };

typedef struct pair {
    ls_group *g, *h;
    float *out, *in;
} pair;

static pair open_pair(ls_group *group)
{
    pair p = {.g = group};
    CHECK_OK(ls_group_set_timeout(group, 30));
    CHECK_OK(ls_group_split(group, 0, 0, &p.h));
    p.out = malloc(LONG * sizeof(float));
    p.in = calloc(LONG, sizeof(float));
    CHECK(p.out != NULL && p.in != NULL);
    for (int i = 0; i < LONG; i++)
        p.out[i] = (float)(i % 1000 + ls_group_rank(group));
    return p;
}

static void close_pair(pair *p)
{
    free(p->out);
    free(p->in);
    ls_group_close(&p->h);
}

static void check_long(const float *data, int add)
{
    for (int i = 0; i < LONG; i++)
        CHECK(data[i] == (float)(i % 1000 + add));
}

/*
 * Everybody sends much to the right in one group. Rank 0 waits for a word in
 * the other that goes round behind what it has sent.
 */
static void send_in_one_receive_in_other(ls_group *group, void *argument)
{
    const int rank = ls_group_rank(group), size = ls_group_size(group);
    const int right = (rank + 1) % size, left = (rank + size - 1) % size;
    ls_request *request = NULL;
    pair p = open_pair(group);
    int word = 0;
    (void)argument;
    CHECK_OK(ls_isend(p.g, p.out, LONG, LS_F32, right, 0, &request));
    if (rank == 0)
        CHECK_OK(ls_recv(p.h, &word, 1, LS_I32, left, 0));
    CHECK_OK(ls_recv(p.g, p.in, LONG, LS_F32, left, 0));
    check_long(p.in, left);
    if (rank != 0 && rank != 1)
        CHECK_OK(ls_recv(p.h, &word, 1, LS_I32, left, 0));
    if (rank != 0) {
        word++;
        CHECK_OK(ls_send(p.h, &word, 1, LS_I32, right, 0));
    }
    CHECK(word == (rank == 0 ? size - 1 : rank));
    CHECK_OK(ls_wait(request));
    ls_request_free(&request);
    close_pair(&p);
}

/* Rank 0 comes to the barrier before it waits for the sum, the others after. */
static void start_in_one_meet_in_other(ls_group *group, void *argument)
{
    const int rank = ls_group_rank(group), size = ls_group_size(group);
    const char *algorithm = argument;
    ls_request *request = NULL;
    pair p = open_pair(group);
    CHECK_OK(ls_group_select(p.g, algorithm));
    CHECK_OK(ls_all_reduce_plan(p.g, p.out, p.in, LONG, LS_F32, LS_REDUCE_SUM,
                                &request));
    for (int repeat = 0; repeat < 3; repeat++) {
        CHECK_OK(ls_start(request));
        if (rank == repeat % size)
            CHECK_OK(ls_barrier(p.h));
        CHECK_OK(ls_wait(request));
        if (rank != repeat % size)
            CHECK_OK(ls_barrier(p.h));
        for (int i = 0; i < LONG; i++)
            CHECK(p.in[i] == (float)(i % 1000 * size + size * (size - 1) / 2));
    }
    ls_request_free(&request);
    close_pair(&p);
}

/* Tests instead of waiting. */
static void send_in_one_test_in_other(ls_group *group, void *argument)
{
    const int rank = ls_group_rank(group);
    ls_request *sends = NULL, *receives = NULL;
    ls_status status = LS_IN_PROGRESS;
    pair p = open_pair(group);
    int word = 0;
    (void)argument;
    if (rank == 0) {
        CHECK_OK(ls_isend(p.g, p.out, LONG, LS_F32, 1, 0, &sends));
        CHECK_OK(ls_irecv(p.h, &word, 1, LS_I32, 1, 0, &receives));
        while (status == LS_IN_PROGRESS)
            status = ls_test(receives);
        CHECK_OK(status);
        CHECK_OK(ls_wait(sends));
    } else {
        CHECK_OK(ls_recv(p.g, p.in, LONG, LS_F32, 0, 0));
        CHECK_OK(ls_send(p.h, &word, 1, LS_I32, 0, 0));
    }
    ls_request_free(&sends);
    ls_request_free(&receives);
    close_pair(&p);
}

static void run_both(int size, rank_fn *fn, void *argument)
{
    run_threads(size, fn, argument);
    run_processes(size, fn, argument);
}

static const int sizes[] = {2, 3, 5};

static char staged[] = "all_reduce:0-inf:staged";
static char ring[] = "all_reduce:0-inf:ring";
static char any[] = "";

static void run_all(int size)
{
    run_both(size, send_in_one_receive_in_other, NULL);
    run_both(size, start_in_one_meet_in_other, staged);
    run_both(size, start_in_one_meet_in_other, ring);
}

static void groups_move_together(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(sizes); i++)
        run_all(sizes[i]);
    run_both(2, send_in_one_test_in_other, NULL);
    assert_true(atomic_load(&sleeps_on_several) > 0);
}

static void between_nodes_too(void **state)
{
    static const int two[] = {1, 1}, three[] = {1, 1, 1}, five[] = {2, 1, 2};
    (void)state;
    run_nodes(two, 2, send_in_one_receive_in_other, NULL);
    run_nodes(three, 3, send_in_one_receive_in_other, NULL);
    run_nodes(five, 3, send_in_one_receive_in_other, NULL);
    run_nodes(five, 3, start_in_one_meet_in_other, any);
    run_nodes(two, 2, send_in_one_test_in_other, NULL);
}

/* ---- waking -------------------------------------------------------------- */

/*
 * Rank 0 sleeps in one group, and rank 1 waits for it in the other again and
 * again. Each sleep must end by a bell, or this takes a slice a time. A busy
 * machine may hold up some of the turns, but not most of them.
 */
static void be_needed_while_asleep(ls_group *group, void *argument)
{
    enum { TURNS = 300 };
    const int rank = ls_group_rank(group);
    ls_request *request = NULL;
    pair p = open_pair(group);
    int word = 0, quick = 0;
    (void)argument;
    for (int i = 0; i < TURNS; i++) {
        const uint64_t begin = lsi_clock_ns();
        if (rank == 0) {
            CHECK_OK(ls_isend(p.g, p.out, LONG / 4, LS_F32, 1, 0, &request));
            CHECK_OK(ls_recv(p.h, &word, 1, LS_I32, 1, 0));
            CHECK_OK(ls_wait(request));
            ls_request_free(&request);
        } else if (rank == 1) {
            while (atomic_load(&lsi_member_of(p.g, 0)->asleep) == 0)
                sched_yield();
            CHECK_OK(ls_recv(p.g, p.in, LONG / 4, LS_F32, 0, 0));
            CHECK_OK(ls_send(p.h, &word, 1, LS_I32, 0, 0));
        }
        quick += lsi_clock_ns() - begin < LSI_SLICE_NS / 2;
    }
    CHECK(quick > TURNS / 2);
    close_pair(&p);
}

static void a_sleeper_hears_every_bell(void **state)
{
    (void)state;
    run_both(2, be_needed_while_asleep, NULL);
}

/* ---- failures stay where they happen ------------------------------------- */

/* They disagree about a message in one group and go on in the other. */
static void disagree_in_one(ls_group *group, void *argument)
{
    const int rank = ls_group_rank(group);
    ls_request *request = NULL;
    pair p = open_pair(group);
    int word = 0;
    (void)argument;
    if (rank == 0) {
        CHECK_OK(ls_irecv(p.g, p.in, LONG, LS_F32, 1, 0, &request));
        CHECK_OK(ls_send(p.h, &word, 1, LS_I32, 1, 0));
        CHECK_OK(ls_recv(p.h, &word, 1, LS_I32, 1, 0));
        CHECK(ls_wait(request) == LS_ERR_MISMATCH);
        CHECK(strstr(ls_last_error(), "disagree about a message") != NULL);
    } else {
        CHECK_OK(ls_recv(p.h, &word, 1, LS_I32, 0, 0));
        CHECK_OK(ls_isend(p.g, p.out, 1, LS_F32, 0, 0, &request));
        /* Until rank 0 has seen it, from where it waits. */
        while (!lsi_has_failed(p.g))
            sched_yield();
        CHECK_OK(ls_send(p.h, &word, 1, LS_I32, 0, 0));
    }
    CHECK_OK(ls_barrier(p.h));
    ls_request_free(&request);
    close_pair(&p);
}

static void a_failure_is_that_of_its_group(void **state)
{
    (void)state;
    run_both(2, disagree_in_one, NULL);
}

static void fail_and_keep_what_was_said(ls_group *group, void *argument)
{
    ls_request *request = NULL;
    pair p = open_pair(group);
    (void)argument;
    if (ls_group_rank(group) == 0) {
        CHECK_OK(ls_irecv(p.g, p.in, LONG, LS_F32, 1, 0, &request));
        CHECK_OK(ls_barrier(p.h));
        CHECK(ls_send(p.h, NULL, 1, LS_I32, 99, 0) == LS_ERR_ARGUMENT);
        while (!lsi_has_failed(p.g))
            (void)lsi_coprogress_move(p.h);
        CHECK(strstr(ls_last_error(), "rank 99 is not in the group") != NULL);
    } else {
        CHECK_OK(ls_barrier(p.h));
        CHECK_OK(ls_isend(p.g, p.out, 1, LS_F32, 0, 0, &request));
    }
    CHECK_OK(ls_barrier(p.h));
    ls_request_free(&request);
    close_pair(&p);
}

static void what_was_said_last_stays(void **state)
{
    (void)state;
    run_both(2, fail_and_keep_what_was_said, NULL);
}

/* ---- from thread to thread ----------------------------------------------- */

static void *wait_elsewhere(void *argument)
{
    ls_request *request = argument;
    CHECK_OK(ls_wait(request));
    return NULL;
}

/*
 * Rank 0 sends in one group, leaves that to another thread and waits in the
 * other, where it sleeps until that thread is through.
 */
static void hand_over(ls_group *group, void *argument)
{
    const int rank = ls_group_rank(group);
    pair p = open_pair(group);
    ls_request *request = NULL;
    pthread_t thread;
    int word = 0;
    (void)argument;
    for (int i = 0; i < 20; i++) {
        if (rank == 0) {
            CHECK_OK(ls_isend(p.g, p.out, LONG, LS_F32, 1, 0, &request));
            CHECK(pthread_create(&thread, NULL, wait_elsewhere, request) == 0);
            CHECK_OK(ls_recv(p.h, &word, 1, LS_I32, 1, 0));
            pthread_join(thread, NULL);
            ls_request_free(&request);
        } else {
            while (i % 2 == 1 &&
                   atomic_load(&p.h->memory.header->sleepers) == 0)
                sched_yield();
            CHECK_OK(ls_recv(p.g, p.in, LONG, LS_F32, 0, 0));
            CHECK_OK(ls_send(p.h, &word, 1, LS_I32, 0, 0));
        }
    }
    check_long(rank == 0 ? p.out : p.in, 0);
    close_pair(&p);
}

static void a_group_may_change_its_thread(void **state)
{
    (void)state;
    run_both(2, hand_over, NULL);
}

static void *close_elsewhere(void *argument)
{
    ls_group *group = argument;
    ls_group_close(&group);
    return NULL;
}

/* Another thread closes what this one may move while it waits. */
static void close_while_moved(ls_group *group, void *argument)
{
    const int rank = ls_group_rank(group);
    pair p = open_pair(group);
    ls_request *request = NULL;
    pthread_t thread;
    int word = 0;
    (void)argument;
    if (rank == 0) {
        CHECK_OK(ls_isend(p.h, p.out, LONG, LS_F32, 1, 0, &request));
        CHECK_OK(ls_wait(request));
        ls_request_free(&request);
        lsi_coprogress_join(p.h); /* a request that is done at once does not */
        CHECK(lsi_coprogress_due(p.g));
        CHECK(pthread_create(&thread, NULL, close_elsewhere, p.h) == 0);
        p.h = NULL;
        CHECK_OK(ls_recv(p.g, &word, 1, LS_I32, 1, 0));
        pthread_join(thread, NULL);
        (void)lsi_coprogress_move(p.g); /* finds out who is gone */
        CHECK(!lsi_coprogress_due(p.g));
    } else {
        CHECK_OK(ls_recv(p.h, p.in, LONG, LS_F32, 0, 0));
        while (atomic_load(&lsi_member_of(p.h, 0)->presence) != LSI_LEFT)
            sched_yield();
        CHECK_OK(ls_send(p.g, &word, 1, LS_I32, 0, 0));
    }
    close_pair(&p);
}

static void a_group_may_be_closed_by_another_thread(void **state)
{
    (void)state;
    run_threads(2, close_while_moved, NULL);
}

/* ---- forks --------------------------------------------------------------- */

/* A child waits for its request and leaves its parent's alone. */
static void wait_in_a_child(ls_group *group, void *argument)
{
    pair p = open_pair(group);
    ls_request *request = NULL;
    (void)argument;
    if (ls_group_rank(group) == 0) {
        CHECK_OK(ls_isend(p.g, p.out, LONG, LS_F32, 1, 0, &request));
        lsi_coprogress_join(p.g); /* a request that is done at once does not */
        CHECK(lsi_coprogress_due(p.h));
        const pid_t child = fork();
        if (child == 0)
            _exit(lsi_coprogress_due(p.h) || lsi_coprogress_move(p.h));
        CHECK(wait_process(child) == 0);
        CHECK(lsi_coprogress_due(p.h));
        CHECK_OK(ls_wait(request));
        ls_request_free(&request);
    } else {
        CHECK_OK(ls_recv(p.g, p.in, LONG, LS_F32, 0, 0));
    }
    close_pair(&p);
}

static void a_child_moves_no_other_group(void **state)
{
    (void)state;
    run_processes(2, wait_in_a_child, NULL);
}

/* ---- older kernels, the last --------------------------------------------- */

static void older_kernels_do_without(void **state)
{
    (void)state;
    atomic_store(&old_kernel, true);
    run_all(3);
    run_threads(2, hand_over, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_move_together),
        cmocka_unit_test(between_nodes_too),
        cmocka_unit_test(a_sleeper_hears_every_bell),
        cmocka_unit_test(a_failure_is_that_of_its_group),
        cmocka_unit_test(what_was_said_last_stays),
        cmocka_unit_test(a_group_may_change_its_thread),
        cmocka_unit_test(a_group_may_be_closed_by_another_thread),
        cmocka_unit_test(a_child_moves_no_other_group),
        cmocka_unit_test(older_kernels_do_without),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * How time counts while a rank waits: not while the whole job was stopped, but
 * while a peer alone is late.
 */
#include "testing.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/suspending_clock.h"
#include "clocks.h"
#include "comm/bootstrap/socket.h"
#include "comm/state/bell.h"
#include "ranks.h"

#define HOUR_NS ((uint64_t)3600 * 1000 * 1000 * 1000)

/* ---- pauses -------------------------------------------------------------- */

static bool is_last(const ls_group *group)
{
    return ls_group_rank(group) == ls_group_size(group) - 1;
}

/* The others sleep, and look again whenever they are woken. */
static void let_look(ls_group *group, int looks)
{
    const int before = atomic_load(&clock_looks);
    while (atomic_load(&clock_looks) < before + looks) {
        lsi_wake_all(group);
        sched_yield();
    }
}

static void await_sleepers(const ls_group *group)
{
    const uint32_t others = (uint32_t)ls_group_size(group) - 1;
    while (atomic_load(&group->memory.header->sleepers) != others)
        sched_yield();
}

static void wait_through_a_pause(ls_group *group, void *unused)
{
    (void)unused;
    CHECK_OK(ls_group_set_timeout(group, 20));
    CHECK_OK(ls_barrier(group));
    if (is_last(group)) {
        await_sleepers(group);
        atomic_fetch_add(&clock_ahead_ns, HOUR_NS);
        let_look(group, 20 * ls_group_size(group));
    }
    CHECK_OK(ls_barrier(group));
}

static void a_pause_of_all_does_not_count(void **state)
{
    (void)state;
    for (int size = 2; size <= 5; size++) {
        clock_reset();
        run_threads(size, wait_through_a_pause, NULL);
    }
}

typedef struct lateness {
    atomic_int over; /* number of ranks that are done */
    bool by_message;
} lateness;

static void wait_for_late(ls_group *group, void *argument)
{
    lateness *l = argument;
    CHECK_OK(ls_group_set_timeout(group, 300));
    CHECK_OK(ls_barrier(group));
    if (!is_last(group)) {
        CHECK(ls_barrier(group) == LS_ERR_TIMEOUT);
        atomic_fetch_add(&l->over, 1);
        return;
    }
    await_sleepers(group);
    atomic_store(&clock_step_ns, LSI_SLICE_NS / 2);
    while (atomic_load(&l->over) < ls_group_size(group) - 1) {
        lsi_wake_all(group);
        sched_yield();
    }
    /* Each look counts two slices at most. */
    CHECK(atomic_load(&clock_looks) >= (int)(300000 / (2 * LSI_SLICE_MS)));
}

static void a_peer_that_is_late_is_given_up(void **state)
{
    (void)state;
    for (int size = 2; size <= 3; size++) {
        lateness l = {0};
        clock_reset();
        run_threads(size, wait_for_late, &l);
    }
    clock_reset();
}

/* ---- a crowded machine -------------------------------------------------- */

/*
 * Whoever is woken, or yields on a crowded machine, finds that two milliseconds
 * have passed since. A rank that has announced its sleep may not sleep yet, and
 * one may sleep before it should yield; then it is tried another time.
 */
static void wake_late(ls_group *group, void *unused)
{
    const int backoff = group->waiting.backoff;
    float noticed = 0;
    (void)unused;
    CHECK_OK(ls_group_set_timeout(group, 300));
    while (noticed == 0) {
        CHECK_OK(ls_barrier(group));
        if (is_last(group)) {
            if (!group->waiting.crowded)
                await_sleepers(group);
            atomic_store(&clock_step_ns, (uint64_t)2 * 1000 * 1000);
            if (group->waiting.crowded)
                await_sleepers(group);
        }
        CHECK_OK(ls_barrier(group));
        atomic_store(&clock_step_ns, 0);
        noticed = is_last(group) || (group->waiting.late >= backoff &&
                                     group->waiting.backoff > backoff);
        CHECK_OK(
            ls_all_reduce(group, &noticed, &noticed, 1, LS_F32, LS_REDUCE_MIN));
    }
}

static void who_runs_late_sleeps_sooner(void **state)
{
    (void)state;
    for (int size = 2; size <= 5; size++) {
        clock_reset();
        run_threads(size, wake_late, NULL);
    }
    clock_reset();
}

/* ---- testing instead of waiting ------------------------------------------ */

static ls_status test_until_told(ls_request *request)
{
    ls_status status = LS_IN_PROGRESS;
    while (status == LS_IN_PROGRESS)
        status = ls_test(request);
    return status;
}

static ls_request *start_sum(ls_group *group, float *data)
{
    ls_request *request = NULL;
    CHECK_OK(ls_all_reduce_plan(group, data, data, 1, LS_F32, LS_REDUCE_SUM,
                                &request));
    return request;
}

static void test_for_late(ls_group *group, void *argument)
{
    lateness *l = argument;
    float x = 1;
    int word = 0;
    CHECK_OK(ls_group_set_timeout(group, 300));
    ls_request *request = start_sum(group, &x);
    if (is_last(group)) {
        while (atomic_load(&l->over) < ls_group_size(group) - 1)
            sched_yield();
        ls_request_free(&request);
        return;
    }
    if (l->by_message) {
        ls_request_free(&request);
        CHECK_OK(ls_irecv(group, &word, 1, LS_I32, ls_group_size(group) - 1, 0,
                          &request));
    } else {
        CHECK_OK(ls_start(request));
    }
    /* Time counts from the first test. */
    atomic_fetch_add(&clock_ahead_ns, HOUR_NS);
    CHECK(ls_test(request) == LS_IN_PROGRESS);
    const uint64_t begin = group->waiting.clock.ns;
    atomic_store(&clock_step_ns, LSI_SLICE_NS / 2);
    CHECK(test_until_told(request) == LS_ERR_TIMEOUT);
    CHECK(strstr(ls_last_error(), "gave up waiting for rank ") != NULL);
    /* Of several, one may have begun before. */
    CHECK(ls_group_size(group) > 2 || group->waiting.clock.ns - begin >=
                                          299 * 1000 * 1000 * (uint64_t)1000);
    CHECK(test_until_told(request) == LS_ERR_TIMEOUT);
    ls_request_free(&request);
    atomic_fetch_add(&l->over, 1);
}

static void who_tests_gives_up_in_time(void **state)
{
    (void)state;
    for (int size = 2; size <= 3; size++)
        for (int by_message = 0; by_message < 2; by_message++) {
            lateness l = {.by_message = by_message == 1};
            clock_reset();
            run_threads(size, test_for_late, &l);
        }
    clock_reset();
}

/* A pause, and then the last comes. */
static void test_through_a_pause(ls_group *group, void *argument)
{
    atomic_bool *over = argument;
    float x = 1;
    CHECK_OK(ls_group_set_timeout(group, 20));
    ls_request *request = start_sum(group, &x);
    if (is_last(group)) {
        while (!atomic_load(over))
            sched_yield();
        CHECK_OK(ls_start(request));
        CHECK_OK(ls_wait(request));
    } else {
        CHECK_OK(ls_start(request));
        CHECK(ls_test(request) == LS_IN_PROGRESS);
        atomic_fetch_add(&clock_ahead_ns, HOUR_NS);
        /* Long enough for another look at the peers, to say whom for. */
        const int before = atomic_load(&clock_looks);
        while (atomic_load(&clock_looks) < before + 20)
            CHECK(ls_test(request) == LS_IN_PROGRESS);
        CHECK(atomic_load(&lsi_member_of(group, 0)->awaits) == 2);
        atomic_store(over, true);
        CHECK_OK(test_until_told(request));
        CHECK(atomic_load(&lsi_member_of(group, 0)->awaits) == 0);
    }
    CHECK(x == 2);
    ls_request_free(&request);
}

static void who_tests_survives_a_pause(void **state)
{
    atomic_bool over = false;
    (void)state;
    clock_reset();
    run_threads(2, test_through_a_pause, &over);
}

static void test_in_vain(ls_request *request)
{
    const int before = atomic_load(&clock_looks);
    while (atomic_load(&clock_looks) < before + 5)
        CHECK(ls_test(request) == LS_IN_PROGRESS);
}

static void *test_elsewhere(void *request)
{
    test_in_vain(request);
    return NULL;
}

/* Threads take turns whose own suspending clocks are an hour apart. */
static void test_in_turn(ls_group *group, void *argument)
{
    atomic_bool *over = argument;
    float x = 1;
    CHECK_OK(ls_group_set_timeout(group, 300));
    ls_request *request = start_sum(group, &x);
    if (is_last(group)) {
        while (!atomic_load(over))
            sched_yield();
        CHECK_OK(ls_start(request));
        CHECK_OK(ls_wait(request));
    } else {
        pthread_t other;
        (void)lsi_suspending_clock_ns();
        atomic_fetch_add(&clock_ahead_ns, HOUR_NS);
        CHECK_OK(ls_start(request));
        CHECK(pthread_create(&other, NULL, test_elsewhere, request) == 0);
        CHECK(pthread_join(other, NULL) == 0);
        test_in_vain(request);
        atomic_store(over, true);
        CHECK_OK(test_until_told(request));
    }
    ls_request_free(&request);
}

static void threads_may_take_turns(void **state)
{
    atomic_bool over = false;
    (void)state;
    clock_reset();
    run_threads(2, test_in_turn, &over);
    clock_reset();
}

static void test_for_the_dead(ls_group *group, void *unused)
{
    float x = 1;
    (void)unused;
    ls_request *request = start_sum(group, &x);
    if (is_last(group))
        _exit(0);
    CHECK_OK(ls_start(request));
    CHECK(test_until_told(request) == LS_ERR_PEER_DEAD);
    CHECK(strstr(ls_last_error(), "has died") != NULL);
    ls_request_free(&request);
}

static void who_tests_hears_of_the_dead(void **state)
{
    (void)state;
    clock_reset();
    run_processes(2, test_for_the_dead, NULL);
    run_processes(3, test_for_the_dead, NULL);
}

/* ---- meeting ------------------------------------------------------------- */

static void a_deadline_of_the_meeting_survives_a_pause(void **state)
{
    int looks = 0;
    (void)state;
    clock_reset();
    const lsi_deadline deadline = lsi_deadline_in(5);
    atomic_store(&clock_ahead_ns, HOUR_NS);
    assert_true(lsi_deadline_poll(deadline) > 0);
    atomic_store(&clock_step_ns, LSI_SLICE_NS);
    while (lsi_deadline_poll(deadline) > 0)
        looks++;
    assert_in_range(looks, 20, 5000 / LSI_SLICE_MS);
    clock_reset();
}

/* The end of a slice is not the end of the timeout. */
static void who_polls_in_vain_goes_on(void **state)
{
    int ends[2], word = 0;
    (void)state;
    clock_reset();
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    const uint64_t begin = lsi_suspending_clock_ns();
    assert_int_equal(lsi_receive_packet(ends[0], &word, sizeof(word), NULL,
                                        lsi_deadline_in(0.35)),
                     -1);
    assert_int_equal(errno, ETIMEDOUT);
    assert_true(lsi_suspending_clock_ns() - begin >=
                (uint64_t)350 * 1000 * 1000);
    close(ends[0]);
    close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pause_of_all_does_not_count),
        cmocka_unit_test(a_peer_that_is_late_is_given_up),
        cmocka_unit_test(who_runs_late_sleeps_sooner),
        cmocka_unit_test(who_tests_gives_up_in_time),
        cmocka_unit_test(who_tests_survives_a_pause),
        cmocka_unit_test(threads_may_take_turns),
        cmocka_unit_test(who_tests_hears_of_the_dead),
        cmocka_unit_test(a_deadline_of_the_meeting_survives_a_pause),
        cmocka_unit_test(who_polls_in_vain_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * Requests, sub-groups, shared buffers, selection, counters and byte strings.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "comm/api/group.h"
#include "lockstep/profile.h"
#include "ranks.h"

/* ---- requests ------------------------------------------------------------ */

enum { PLANS = 30, LENGTH = 5000 };

static void many_in_flight(ls_group *group, void *argument)
{
    ls_request *plans[PLANS];
    const int rank = ls_group_rank(group), size = ls_group_size(group);
    double *data = malloc(sizeof(double) * PLANS * LENGTH);
    (void)argument;
    for (int p = 0; p < PLANS; p++)
        CHECK_OK(ls_all_reduce_plan(group, data + p * LENGTH, data + p * LENGTH,
                                    (size_t)(p * 170), LS_F64, LS_REDUCE_SUM,
                                    &plans[p]));
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < PLANS * LENGTH; i++)
            data[i] = rank + i + round;
        for (int p = 0; p < PLANS; p++)
            CHECK_OK(ls_start(plans[p]));
        CHECK(ls_start(plans[0]) == LS_ERR_STATE);
        for (int p = PLANS - 1; p >= 0; p--)
            CHECK_OK(ls_wait(plans[p]));
        for (int p = 0; p < PLANS; p++)
            for (int i = p * LENGTH; i < p * LENGTH + p * 170; i++)
                CHECK(data[i] ==
                      (double)size * (i + round) + size * (size - 1) / 2);
    }
    for (int p = 0; p < PLANS; p++)
        ls_request_free(&plans[p]);
    free(data);
}

static void requests_can_be_in_flight_together(void **state)
{
    (void)state;
    for (int size = 1; size <= 5; size++)
        run_threads(size, many_in_flight, NULL);
    run_processes(2, many_in_flight, NULL);
}

/* A call that returns when done takes its place behind what is in flight. */
static void call_behind_request(ls_group *group, void *argument)
{
    ls_request *request = NULL;
    float a[3] = {1, 2, 3}, b = 5;
    (void)argument;
    CHECK_OK(
        ls_all_reduce_plan(group, a, a, 3, LS_F32, LS_REDUCE_SUM, &request));
    CHECK(ls_wait(request) == LS_ERR_STATE);
    CHECK_OK(ls_start(request));
    CHECK_OK(ls_all_reduce(group, &b, &b, 1, LS_F32, LS_REDUCE_MAX));
    CHECK(b == 5);
    CHECK(ls_test(request) == LS_OK);
    CHECK(a[2] == 9);
    ls_request_free(&request);
    ls_request_free(&request);
}

static void calls_queue_behind_requests(void **state)
{
    (void)state;
    run_threads(3, call_behind_request, NULL);
}

/* ---- sub-groups ---------------------------------------------------------- */

static void split(ls_group *group, void *argument)
{
    const int rank = ls_group_rank(group), size = ls_group_size(group);
    ls_group *part = NULL, *none = NULL;
    (void)argument;
    /* Odd and even ranks, in descending order. */
    CHECK_OK(ls_group_split(group, rank % 2, -rank, &part));
    const int mine = rank % 2 == 0 ? (size + 1) / 2 : size / 2;
    CHECK(ls_group_size(part) == mine);
    CHECK(ls_group_rank(part) == mine - 1 - rank / 2);
    int64_t sum = rank, all = rank, wanted = 0;
    for (int r = rank % 2; r < size; r += 2)
        wanted += r;
    CHECK_OK(ls_all_reduce(part, &sum, &sum, 1, LS_I64, LS_REDUCE_SUM));
    CHECK(sum == wanted);
    CHECK_OK(ls_all_reduce(group, &all, &all, 1, LS_I64, LS_REDUCE_SUM));
    CHECK(all == size * (size - 1) / 2);
    void *shared = NULL; /* its memory comes from the same job */
    CHECK_OK(ls_shared_alloc(part, 100, &shared));
    memset(shared, rank, 100);
    CHECK_OK(ls_barrier(part));
    for (int r = 0; r < mine; r++) {
        const unsigned char *peer = ls_shared_peer(part, shared, r);
        CHECK(peer[99] == (rank % 2) + 2 * (mine - 1 - r));
    }
    CHECK_OK(ls_shared_free(part, &shared));
    CHECK_OK(ls_group_split(group, rank == 0 ? -1 : 7, 0, &none));
    CHECK((none == NULL) == (rank == 0));
    if (none != NULL)
        CHECK_OK(ls_barrier(none));
    ls_group_close(&none);
    ls_group_close(&part);
    CHECK_OK(ls_barrier(group));
}

static void groups_can_be_split(void **state)
{
    (void)state;
    for (int size = 2; size <= 5; size++)
        run_threads(size, split, NULL);
    run_processes(4, split, NULL);
}

/* Closes the group that was split first. */
static void outlive(ls_group *group, void *argument)
{
    ls_group *part = NULL, *smaller = NULL;
    void *shared = NULL;
    (void)argument;
    CHECK_OK(ls_group_split(group, 0, 0, &part));
    CHECK_OK(ls_barrier(group));
    ls_group_close(&group);
    CHECK_OK(ls_shared_alloc(part, 100, &shared));
    memset(shared, 1, 100);
    CHECK_OK(ls_shared_free(part, &shared));
    CHECK_OK(ls_group_split(part, 0, 0, &smaller));
    ls_group_close(&part);
    CHECK_OK(ls_shared_alloc(smaller, 100, &shared));
    CHECK_OK(ls_shared_free(smaller, &shared));
    ls_group_close(&smaller);
}

static void outlive_and_exit(ls_group *group, void *argument)
{
    outlive(group, argument);
    _exit(0); /* there is nothing left to be closed */
}

static void parts_may_outlive_the_whole(void **state)
{
    ls_group *alone = NULL;
    (void)state;
    CHECK_OK(ls_group_open_threads(&alone, 1));
    outlive(alone, NULL);
    run_processes(3, outlive_and_exit, NULL);
}

/* ---- shared buffers ------------------------------------------------------ */

enum { MOST_BUFFERS = 16 };

static int take_all(ls_group *group, void **buffers)
{
    const size_t bytes = (size_t)4 << 20;
    int had = 0;
    while (had < MOST_BUFFERS &&
           ls_shared_alloc(group, bytes, &buffers[had]) == LS_OK)
        ((char *)buffers[had++])[bytes - 1] = 1;
    CHECK(had < MOST_BUFFERS);
    CHECK(ls_shared_alloc(group, bytes, &buffers[had]) == LS_ERR_MEMORY);
    CHECK(strstr(ls_last_error(), "has used all") != NULL);
    return had;
}

/* Freed memory can be allocated again. */
static void use_up(ls_group *group, void *argument)
{
    void *buffers[MOST_BUFFERS];
    int had = 0;
    (void)argument;
    for (int i = 0; i < 3; i++) {
        const int before = had;
        had = take_all(group, buffers);
        CHECK(had >= 3 && (i == 0 || had == before));
        for (int b = 0; b < had; b++)
            CHECK_OK(ls_shared_free(group, &buffers[b]));
    }
    CHECK_OK(ls_barrier(group));
}

static void a_job_without_room_is_an_error(void **state)
{
    (void)state;
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = (struct rlimit){(rlim_t)64 << 20, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    run_processes(2, use_up, NULL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
}

static void share(ls_group *group, void *argument)
{
    const int rank = ls_group_rank(group), size = ls_group_size(group);
    unsigned char *small = NULL, *large = NULL;
    ls_memory_stats before, after;
    void *data = NULL;
    (void)argument;
    CHECK_OK(ls_shared_alloc(group, 3, &data));
    small = data;
    CHECK_OK(ls_shared_alloc(group, 3 << 20, &data));
    large = data;
    CHECK((uintptr_t)small % 64 == 0 && (uintptr_t)large % 64 == 0);
    for (int i = 0; i < 3; i++)
        CHECK(small[i] == 0);
    small[2] = (unsigned char)(rank + 1);
    large[(3 << 20) - 1] = (unsigned char)(rank + 2);
    CHECK_OK(ls_barrier(group));
    for (int r = 0; r < size; r++) {
        CHECK(*(unsigned char *)ls_shared_peer(group, small + 2, r) == r + 1);
        unsigned char *last = ls_shared_peer(group, large + (3 << 20) - 1, r);
        CHECK(*last == r + 2);
    }
    CHECK(ls_shared_peer(group, &before, 0) == NULL);
    CHECK(ls_shared_peer(group, small, size) == NULL);
    CHECK_OK(ls_barrier(group));
    data = small;
    CHECK_OK(ls_shared_free(group, &data));
    CHECK(data == NULL);
    CHECK_OK(ls_shared_free(group, &data));
    data = &after;
    CHECK(ls_shared_free(group, &data) == LS_ERR_ARGUMENT);
    ls_memory_of(LS_MEMORY_COMM, &before);
    data = large;
    CHECK_OK(ls_shared_free(group, &data));
    if (argument != NULL) { /* processes count for themselves */
        ls_memory_of(LS_MEMORY_COMM, &after);
        CHECK(before.live_bytes - after.live_bytes >= 3 << 20);
    }
}

static void buffers_can_be_shared(void **state)
{
    int counting = 1;
    (void)state;
    for (int size = 1; size <= 4; size++)
        run_threads(size, share, NULL);
    run_processes(3, share, &counting);
}

static void over_budget(ls_group *group, void *argument)
{
    void *data = NULL;
    (void)argument;
    if (ls_group_rank(group) == 1)
        ls_memory_set_budget(1 << 20);
    const ls_status status = ls_shared_alloc(group, 4 << 20, &data);
    CHECK(status == LS_ERR_BUDGET && data == NULL);
    if (ls_group_rank(group) == 0)
        CHECK(strstr(ls_last_error(), "rank 1") != NULL);
    ls_memory_set_budget(0);
    CHECK_OK(ls_barrier(group)); /* the group is as good as before */
}

static void one_rank_out_of_memory_stops_all(void **state)
{
    (void)state;
    run_processes(3, over_budget, NULL);
}

/* ---- selection ----------------------------------------------------------- */

static void bad_lines_are_errors(void **state)
{
    static const char *const bad[] = {"all_reduc:0-8k:flat",
                                      "all_reduce:0-8k:fast",
                                      "all_reduce:8k-0:flat",
                                      "all_reduce:0-8k",
                                      "all_reduce",
                                      "all_reduce:0-inf:flat",
                                      "all_reduce:0-8k:flat|staged",
                                      "all_reduce:x-8k:staged",
                                      ":",
                                      ",",
                                      "all_reduce:0-1-2:staged"};
    ls_group *group = NULL;
    (void)state;
    assert_int_equal(ls_group_open_threads(&group, 1), LS_OK);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(ls_group_select(group, bad[i]), LS_ERR_ARGUMENT);
    assert_int_equal(ls_group_select(group, bad[1]), LS_ERR_ARGUMENT);
    assert_non_null(strstr(ls_last_error(), "butterfly"));
    assert_int_equal(ls_group_select(group, bad[0]), LS_ERR_ARGUMENT);
    assert_non_null(strstr(ls_last_error(), "all_to_all"));
    assert_int_equal(ls_group_select(group, "all_reduce:0-1k:flat;1k-inf:ring,"
                                            "broadcast:0-inf:direct|staged"),
                     LS_OK);
    ls_group_close(&group);
}

static void forced_path(ls_group *group, void *argument)
{
    float x[100] = {0};
    (void)argument;
    CHECK_OK(ls_group_select(group, "all_reduce:0-inf:direct"));
    /* Private memory of other processes cannot be reached like that. */
    CHECK(ls_all_reduce(group, x, x, 100, LS_F32, LS_REDUCE_SUM) ==
          LS_ERR_UNSUPPORTED);
    CHECK(strstr(ls_last_error(), "direct") != NULL);
    CHECK_OK(ls_group_select(group, ""));
    CHECK_OK(ls_all_reduce(group, x, x, 100, LS_F32, LS_REDUCE_SUM));
}

static void a_path_that_cannot_be_is_an_error_on_all(void **state)
{
    (void)state;
    run_processes(3, forced_path, NULL);
}

/* ---- counters ------------------------------------------------------------ */

static uint64_t bytes_of(ls_group *group, const char *line, size_t count)
{
    ls_group_counters before, after;
    float *data = calloc(count, sizeof(float));
    CHECK_OK(ls_group_select(group, line));
    ls_group_get_counters(group, &before);
    CHECK_OK(ls_all_reduce(group, data, data, count, LS_F32, LS_REDUCE_SUM));
    ls_group_get_counters(group, &after);
    CHECK(after.collectives == before.collectives + 1);
    free(data);
    return after.bytes_sent - before.bytes_sent;
}

static void count_bytes(ls_group *group, void *argument)
{
    enum { COUNT = 64 * 1024 };
    const uint64_t n = (uint64_t)ls_group_size(group);
    const uint64_t bytes = COUNT * sizeof(float);
    const uint64_t least = 2 * bytes / n * (n - 1);
    (void)argument;
    CHECK(bytes_of(group, "all_reduce:0-inf:ring", COUNT) == least);
    CHECK(bytes_of(group, "all_reduce:0-inf:butterfly", COUNT) == least);
    CHECK(bytes_of(group, "all_reduce:0-inf:direct", COUNT) == least);
    CHECK(bytes_of(group, "all_reduce:0-inf:staged", COUNT) == least);
    CHECK(bytes_of(group, "all_reduce:0-8k:flat", 10) == 40 * (n - 1));
    ls_group_counters before, after;
    float *data = calloc(COUNT, sizeof(float));
    ls_group_get_counters(group, &before);
    CHECK_OK(ls_reduce_scatter(
        group, data, data + (size_t)ls_group_rank(group) * (COUNT / n),
        COUNT / n, LS_F32, LS_REDUCE_SUM));
    ls_group_get_counters(group, &after);
    CHECK(after.bytes_sent - before.bytes_sent == bytes / n * (n - 1));
    free(data);
}

static void bytes_are_counted(void **state)
{
    (void)state;
    for (int size = 1; size <= 8; size *= 2)
        run_threads(size, count_bytes, NULL);
}

/* ---- byte strings -------------------------------------------------------- */

static void gather_strings(ls_group *group, void *argument)
{
    const int rank = ls_group_rank(group), size = ls_group_size(group);
    const size_t unit = *(const size_t *)argument;
    size_t sizes[8] = {99}, at = 0;
    const size_t own = unit * (size_t)((rank * 7) % 5);
    unsigned char *send = malloc(own + 1);
    void *all = NULL;
    memset(send, rank + 1, own);
    CHECK_OK(ls_all_gather_bytes(group, send, own, sizes, &all));
    for (int r = 0; r < size; r++) {
        CHECK(sizes[r] == unit * (size_t)((r * 7) % 5));
        for (size_t i = 0; i < sizes[r]; i++)
            CHECK(((unsigned char *)all)[at++] == r + 1);
    }
    ls_free(all);
    free(send);
}

static void strings_of_any_length_are_gathered(void **state)
{
    static const size_t units[] = {0, 1, 1000, 100000};
    (void)state;
    for (int u = 0; u < 4; u++)
        for (int size = 1; size <= 5; size++) {
            size_t unit = units[u];
            run_threads(size, gather_strings, &unit);
        }
}

/* ---- duplicates ---------------------------------------------------------- */

/*
 * A duplicate has a separate queue: ranks start something in it before or
 * after a collective of the group. It knows the group's shared buffers, without
 * which `direct` could not be used, and its counters.
 */
static void use_dup(ls_group *group, void *unused)
{
    (void)unused;
    ls_group *duplicate = NULL;
    ls_request *request = NULL;
    void *data = NULL;
    ls_group_counters before, after;
    CHECK_OK(ls_group_select(group, "all_reduce:0-inf:direct"));
    CHECK_OK(ls_shared_alloc(group, 4096, &data));
    CHECK_OK(lsi_group_dup(group, &duplicate));
    CHECK(ls_shared_peer(duplicate, data, 0) == ls_shared_peer(group, data, 0));
    CHECK_OK(ls_all_reduce_plan(duplicate, data, data, 1024, LS_F32,
                                LS_REDUCE_SUM, &request));
    ls_group_get_counters(group, &before);
    for (int i = 0; i < 1024; i++)
        ((float *)data)[i] = 1;
    if (ls_group_rank(group) % 2 == 0)
        CHECK_OK(ls_start(request));
    CHECK_OK(ls_barrier(group));
    if (ls_group_rank(group) % 2 != 0)
        CHECK_OK(ls_start(request));
    CHECK_OK(ls_barrier(group));
    CHECK_OK(ls_wait(request));
    CHECK(((float *)data)[1023] == (float)ls_group_size(group));
    ls_group_get_counters(group, &after);
    CHECK(after.collectives - before.collectives == 3);
    ls_request_free(&request);
    ls_group_close(&duplicate);
    CHECK_OK(ls_shared_free(group, &data));
}

static void a_duplicate_has_its_own_queue(void **state)
{
    (void)state;
    run_threads(1, use_dup, NULL);
    run_threads(5, use_dup, NULL);
    run_processes(3, use_dup, NULL);
}

/* ---- arguments ----------------------------------------------------------- */

static double timeout_of(const ls_group *group)
{
    return (double)group->waiting.timeout_ns / 1e9;
}

static double timeout_of_open(double seconds)
{
    ls_group *group = NULL;
    CHECK_OK(ls_group_open(&group, "timeouts", 0, 1, NULL, seconds));
    const double got = timeout_of(group);
    ls_group_close(&group);
    return got;
}

/* In a child: the variable is this process's. */
static void set_timeouts(ls_group *group, void *argument)
{
    static const double wrong[] = {-2, -0.5, -1e9, 1e10, NAN, INFINITY};
    (void)argument;
    CHECK_OK(ls_group_set_timeout(group, 2.5));
    CHECK(timeout_of(group) == 2.5 && timeout_of_open(2.5) == 2.5);
    CHECK_OK(ls_group_set_timeout(group, LS_TIMEOUT_NONE));
    CHECK(timeout_of(group) == 0 && timeout_of_open(LS_TIMEOUT_NONE) == 0);
    unsetenv("LOCKSTEP_TIMEOUT");
    CHECK_OK(ls_group_set_timeout(group, LS_TIMEOUT_DEFAULT));
    CHECK(timeout_of(group) == 300 &&
          timeout_of_open(LS_TIMEOUT_DEFAULT) == 300);
    setenv("LOCKSTEP_TIMEOUT", "7", 1);
    CHECK_OK(ls_group_set_timeout(group, LS_TIMEOUT_DEFAULT));
    CHECK(timeout_of(group) == 7 && timeout_of_open(LS_TIMEOUT_DEFAULT) == 7);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        ls_group *none = NULL;
        CHECK(ls_group_set_timeout(group, wrong[i]) == LS_ERR_ARGUMENT);
        CHECK(strstr(ls_last_error(), "ls_group_set_timeout: the timeout "));
        CHECK(ls_group_open(&none, "timeouts", 0, 1, NULL, wrong[i]) ==
              LS_ERR_ARGUMENT);
        CHECK(strstr(ls_last_error(), "ls_group_open: the timeout "));
    }
    CHECK(timeout_of(group) == 7);
}

static void timeouts_mean_the_same_everywhere(void **state)
{
    (void)state;
    run_processes(1, set_timeouts, NULL);
}

static void bad_arguments_are_errors(void **state)
{
    ls_group *group = NULL;
    float x[8] = {0};
    (void)state;
    assert_int_equal(ls_group_open_threads(&group, 0), LS_ERR_ARGUMENT);
    assert_int_equal(ls_group_open_threads(&group, 1), LS_OK);
    assert_int_equal(ls_barrier(NULL), LS_ERR_ARGUMENT);
    assert_int_equal(ls_all_reduce(group, NULL, x, 1, LS_F32, LS_REDUCE_SUM),
                     LS_ERR_ARGUMENT);
    assert_int_equal(ls_all_reduce(group, x, x + 1, 4, LS_F32, LS_REDUCE_SUM),
                     LS_ERR_ARGUMENT);
    assert_int_equal(ls_all_reduce(group, x, x, 1, LS_I32, LS_REDUCE_AVG),
                     LS_ERR_UNSUPPORTED);
    assert_int_equal(ls_all_reduce(group, x, x, 1, LS_F32, (ls_reduce_op)9),
                     LS_ERR_ARGUMENT);
    assert_int_equal(ls_all_reduce(group, x, x, 1, (ls_dtype)-1, LS_REDUCE_SUM),
                     LS_ERR_DTYPE);
    assert_int_equal(
        ls_all_reduce(group, x, x, SIZE_MAX / 2, LS_F32, LS_REDUCE_SUM),
        LS_ERR_ARGUMENT);
    assert_int_equal(ls_broadcast(group, x, 1, LS_F32, 2), LS_ERR_ARGUMENT);
    assert_int_equal(ls_broadcast(group, x, 1, LS_F32, -1), LS_ERR_ARGUMENT);
    assert_int_equal(ls_all_gather(group, x, x + 1, 2, LS_F32),
                     LS_ERR_ARGUMENT);
    assert_int_equal(ls_group_set_timeout(group, -2), LS_ERR_ARGUMENT);
    assert_int_equal(ls_shared_alloc(group, (size_t)1 << 60, NULL),
                     LS_ERR_ARGUMENT);
    ls_group_close(&group);
    ls_group_close(&group);
    ls_group_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_can_be_in_flight_together),
        cmocka_unit_test(calls_queue_behind_requests),
        cmocka_unit_test(groups_can_be_split),
        cmocka_unit_test(parts_may_outlive_the_whole),
        cmocka_unit_test(a_job_without_room_is_an_error),
        cmocka_unit_test(buffers_can_be_shared),
        cmocka_unit_test(one_rank_out_of_memory_stops_all),
        cmocka_unit_test(bad_lines_are_errors),
        cmocka_unit_test(a_path_that_cannot_be_is_an_error_on_all),
        cmocka_unit_test(bytes_are_counted),
        cmocka_unit_test(strings_of_any_length_are_gathered),
        cmocka_unit_test(a_duplicate_has_its_own_queue),
        cmocka_unit_test(timeouts_mean_the_same_everywhere),
        cmocka_unit_test(bad_arguments_are_errors),
    };
    return cmocka_run_group_tests_name("groups", tests, NULL, NULL);
}

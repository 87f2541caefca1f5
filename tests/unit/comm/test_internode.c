/*
 * Groups that span nodes: dividing them, requests, messages, refusing,
 * disagreeing, and what happens when the wire is cut or a rank leaves.
 */
#include "testing.h"

#include <sched.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "comm/health/sigterm.h"
#include "comm/net/internode.h"
#include "comm/state/state.h"
#include "nodes.h"

static const int two_by_two[] = {2, 2}, uneven[] = {2, 1, 3};

/* ---- who is where -------------------------------------------------------- */

static void look_around(ls_group *group, void *unused)
{
    static const int index[] = {0, 1, 0, 0, 1, 2}, size[] = {2, 2, 1, 3, 3, 3};
    const int rank = ls_group_rank(group);
    void *data = NULL;
    (void)unused;
    CHECK(ls_group_local_rank(group) == index[rank]);
    CHECK(ls_group_local_size(group) == size[rank]);
    CHECK_OK(ls_shared_alloc(group, 1000, &data));
    *(int *)data = rank;
    CHECK_OK(ls_barrier(group));
    for (int r = 0; r < 6; r++) {
        const int *theirs = ls_shared_peer(group, data, r);
        const bool here = r - index[r] == rank - index[rank];
        CHECK((theirs != NULL) == here);
        CHECK(!here || *theirs == r);
    }
    CHECK_OK(ls_shared_free(group, &data));
}

static void nodes_have_memory_of_their_own(void **state)
{
    (void)state;
    run_nodes(uneven, 3, look_around, NULL);
}

/* ---- sums of a group, whatever it is ------------------------------------- */

enum { LONG = 200001 };

static void add_up(ls_group *group)
{
    static const size_t counts[] = {0, 1, 1000, LONG};
    const int rank = ls_group_rank(group), size = ls_group_size(group);
    float *data = malloc(LONG * sizeof(*data));
    for (size_t c = 0; c < TEST_COUNT(counts); c++) {
        for (size_t i = 0; i < counts[c]; i++)
            data[i] = (float)(i % 101) + (float)rank;
        CHECK_OK(
            ls_all_reduce(group, data, data, counts[c], LS_F32, LS_REDUCE_SUM));
        for (size_t i = 0; i < counts[c]; i++)
            CHECK(data[i] == (float)((i % 101) * (size_t)size) +
                                 (float)(size * (size - 1) / 2));
    }
    free(data);
}

static void divide(ls_group *group, void *unused)
{
    const int rank = ls_group_rank(group);
    ls_group *odd = NULL, *backwards = NULL, *here = NULL, *again = NULL;
    (void)unused;
    CHECK_OK(ls_group_split(group, rank % 2, rank, &odd));
    CHECK(ls_group_size(odd) == 3 && ls_group_rank(odd) == rank / 2);
    CHECK_OK(ls_group_split(group, 0, -rank, &backwards));
    CHECK(ls_group_rank(backwards) == 5 - rank);
    CHECK_OK(ls_group_split(group, rank < 2 ? 0 : -1, 0, &here));
    CHECK((here != NULL) == (rank < 2));
    CHECK_OK(ls_group_split(odd, ls_group_rank(odd) > 0, 0, &again));
    add_up(backwards);
    add_up(odd);
    add_up(again);
    if (here != NULL)
        add_up(here);
    ls_group_close(&odd);
    add_up(again);
    add_up(group);
    ls_group_close(&here);
    ls_group_close(&again);
    ls_group_close(&backwards);
}

static void parts_may_span_nodes_or_not(void **state)
{
    (void)state;
    run_nodes(uneven, 3, divide, NULL);
}

/* ---- requests and messages ----------------------------------------------- */

static void start_several(ls_group *group, void *unused)
{
    enum { N = 5, COUNT = 150000 };
    ls_request *requests[N] = {NULL};
    float *data[N];
    (void)unused;
    for (int i = 0; i < N; i++) {
        data[i] = malloc(COUNT * sizeof(float));
        CHECK_OK(ls_all_reduce_plan(group, data[i], data[i], COUNT, LS_F32,
                                    LS_REDUCE_SUM, &requests[i]));
    }
    for (int repeat = 0; repeat < 3; repeat++) {
        for (int i = 0; i < N; i++) {
            for (size_t k = 0; k < COUNT; k++)
                data[i][k] = (float)(i + repeat);
            CHECK_OK(ls_start(requests[i]));
        }
        for (int i = N; i-- > 0;) {
            CHECK_OK(ls_wait(requests[i]));
            CHECK(data[i][0] == 4 * (float)(i + repeat));
            CHECK(data[i][COUNT - 1] == 4 * (float)(i + repeat));
        }
    }
    for (int i = 0; i < N; i++) {
        ls_request_free(&requests[i]);
        free(data[i]);
    }
}

static void requests_are_in_flight_together(void **state)
{
    (void)state;
    run_nodes(two_by_two, 2, start_several, NULL);
}

static void talk(ls_group *group, void *unused)
{
    enum { COUNT = 150001 }; /* more pieces than are on the way at once */
    const int rank = ls_group_rank(group), size = ls_group_size(group);
    int32_t *out = malloc(COUNT * sizeof(*out)), *in = malloc(COUNT * 4);
    (void)unused;
    for (int hop = 1; hop < size; hop++) {
        ls_request *request = NULL;
        const int to = (rank + hop) % size, from = (rank - hop + size) % size;
        for (int i = 0; i < COUNT; i++)
            out[i] = rank * COUNT + i;
        CHECK_OK(ls_isend(group, out, COUNT, LS_I32, to, 0, &request));
        CHECK_OK(ls_recv(group, in, COUNT, LS_I32, from, 0));
        CHECK_OK(ls_wait(request));
        ls_request_free(&request);
        for (int i = 0; i < COUNT; i++)
            CHECK(in[i] == from * COUNT + i);
    }
    free(out);
    free(in);
}

static void messages_reach_every_rank(void **state)
{
    (void)state;
    run_nodes(uneven, 3, talk, NULL);
}

/* Neither more than a late rank should have to keep, nor much less. */
static void check_ahead(held ahead, size_t bytes)
{
    const size_t most = 2 * LSI_CREDIT_BYTES + LSI_WIRE_PIECE;
    CHECK(ahead.bytes < most + sizeof(lsi_envelope));
    CHECK(ahead.messages < 600);
    CHECK(ahead.messages > 100 || ahead.bytes > LSI_CREDIT_BYTES / 2);
    CHECK(ahead.messages > 100 || bytes > 1000);
}

/* Rank 0 sends as far as it may to rank 2, which is late. */
static void send_ahead(ls_group *group, size_t bytes, size_t messages)
{
    enum { LOOKS = 1000, MOST = 300 };
    ls_request *requests[MOST] = {NULL};
    const int rank = ls_group_rank(group);
    const size_t mine = rank == 0 ? messages : 0;
    const size_t theirs = rank == 2 ? messages : 0;
    uint8_t *data = calloc(messages, bytes);
    memset(data, rank == 0 ? 7 : 0, messages * bytes);
    CHECK_OK(ls_barrier(group));
    for (size_t i = 0; i < mine; i++)
        CHECK_OK(ls_isend(group, data + i * bytes, bytes, LS_U8, 2, 0,
                          &requests[i]));
    for (int i = 0; rank == 0 && i < LOOKS; i++)
        CHECK(ls_test(requests[messages - 1]) == LS_IN_PROGRESS);
    if (rank == 0)
        check_ahead(wire_holds(0, 2), bytes);
    CHECK_OK(ls_barrier(group));
    for (size_t i = 0; i < theirs; i++)
        CHECK_OK(ls_recv(group, data + i * bytes, bytes, LS_U8, 0, 0));
    for (size_t i = 0; i < mine; i++) {
        CHECK_OK(ls_wait(requests[i]));
        ls_request_free(&requests[i]);
    }
    for (size_t i = 0; i < theirs * bytes; i++)
        CHECK(data[i] == 7);
    free(data);
}

static void be_late(ls_group *group, void *unused)
{
    (void)unused;
    for (int repeat = 0; repeat < 3; repeat++) {
        send_ahead(group, 8000001, 1);
        send_ahead(group, 100000, 40);
        send_ahead(group, 8, 300);
    }
}

static void who_is_late_is_not_flooded(void **state)
{
    (void)state;
    run_nodes(two_by_two, 2, be_late, NULL);
}

/* ---- faults -------------------------------------------------------------- */

static void refuse(ls_group *group, void *unused)
{
    float x = 1;
    float *data = ls_group_rank(group) == 4 ? NULL : &x;
    (void)unused;
    CHECK(ls_all_reduce(group, data, data, 1, LS_F32, LS_REDUCE_SUM) ==
          LS_ERR_ARGUMENT);
    CHECK(ls_group_rank(group) == 4 ||
          strstr(ls_last_error(), "rank 4 cannot take part") != NULL);
    add_up(group);
}

static void disagree(ls_group *group, void *unused)
{
    float x[2] = {1, 2};
    const size_t count = ls_group_rank(group) == 3 ? 2 : 1;
    (void)unused;
    CHECK(ls_all_reduce(group, x, x, count, LS_F32, LS_REDUCE_SUM) ==
          LS_ERR_MISMATCH);
    CHECK(strstr(ls_last_error(), "count differs") != NULL);
}

static void refusals_and_differences_reach_all(void **state)
{
    (void)state;
    run_nodes(uneven, 3, refuse, NULL);
    run_nodes(uneven, 3, disagree, NULL);
}

static void leave(ls_group *group, void *unused)
{
    (void)unused;
    CHECK_OK(ls_group_set_timeout(group, 30));
    if (ls_group_rank(group) == 3)
        return; /* closes the group */
    CHECK(ls_barrier(group) == LS_ERR_PEER_DEAD);
    CHECK(strstr(ls_last_error(), "rank 3") != NULL);
    CHECK(strstr(ls_last_error(), "has closed the group") != NULL);
}

static void a_rank_that_leaves_is_missed(void **state)
{
    (void)state;
    run_nodes(two_by_two, 2, leave, NULL);
}

static void be_cut_off(ls_group *group, void *unused)
{
    (void)unused;
    CHECK_OK(ls_group_set_timeout(group, 0.5));
    CHECK_OK(ls_barrier(group));
    cut_wire();
    CHECK(ls_barrier(group) == LS_ERR_TIMEOUT);
    const char *reason = ls_group_rank(group) < 2
                             ? "gave up waiting for rank 2 (host "
                             : "gave up waiting for rank 0 (host ";
    CHECK(strstr(ls_last_error(), reason) != NULL);
}

static void a_cut_wire_is_noticed_in_time(void **state)
{
    (void)state;
    run_nodes(two_by_two, 2, be_cut_off, NULL);
}

/*
 * Rank 1 waits until it has told rank 0 so, and has more to tell later. The
 * timeout is longer than the test may take.
 */
static void let_wait(ls_group *group)
{
    const int rank = ls_group_rank(group);
    CHECK_OK(ls_group_set_timeout(group, 100));
    CHECK_OK(ls_barrier(group));
    while (rank == 0 && !has_told_whom(1))
        sched_yield();
    for (int i = 0; i < 3; i++)
        CHECK_OK(ls_barrier(group));
    CHECK(atomic_load(&lsi_member_of(group, 1 - rank)->awaits) == 0);
}

/* By itself a rank would find out no more than that it has timed out. */
static void expect_told(ls_group *group, ls_status status, const char *reason)
{
    CHECK(ls_barrier(group) == status);
    CHECK(strstr(ls_last_error(), reason) != NULL);
}

static void wait_and_leave(ls_group *group, void *unused)
{
    (void)unused;
    let_wait(group);
    if (ls_group_rank(group) == 0)
        expect_told(group, LS_ERR_PEER_DEAD, "rank 1");
}

static void wait_and_disagree(ls_group *group, void *unused)
{
    int x[2] = {0, 0};
    ls_request *request = NULL;
    (void)unused;
    let_wait(group);
    if (ls_group_rank(group) == 1) {
        CHECK(ls_recv(group, x, 2, LS_I32, 0, 0) == LS_ERR_MISMATCH);
        return;
    }
    CHECK_OK(ls_isend(group, x, 1, LS_I32, 1, 0, &request));
    expect_told(group, LS_ERR_MISMATCH, "disagree about a message");
    ls_request_free(&request);
}

static void who_has_waited_is_heard_again(void **state)
{
    static const int two[] = {1, 1};
    (void)state;
    run_nodes(two, 2, wait_and_leave, NULL);
    run_nodes(two, 2, wait_and_disagree, NULL);
}

typedef struct absence {
    ls_status (*wait)(ls_group *group); /* for the last rank */
    double timeout_s;
    atomic_int over;  /* number of ranks that are done */
    atomic_int wrong; /* number of ranks that blamed a waiting rank */
} absence;

static ls_status wait_in_turn(ls_group *group)
{
    int x = 0;
    return ls_recv(group, &x, 1, LS_I32, ls_group_rank(group) + 1, 0);
}

static void miss_the_last(ls_group *group, absence *a, const char *reason)
{
    if (ls_group_rank(group) == ls_group_size(group) - 1) {
        while (atomic_load(&a->over) != ls_group_size(group) - 1)
            usleep(1000);
        return;
    }
    CHECK(a->wait(group) == LS_ERR_TIMEOUT);
    if (strstr(ls_last_error(), reason) == NULL)
        atomic_fetch_add(&a->wrong, 1);
    atomic_fetch_add(&a->over, 1);
}

static void wait_at_once(ls_group *group, void *argument)
{
    absence *a = argument;
    char reason[64];
    snprintf(reason, sizeof(reason), "waiting for rank %d (host ",
             ls_group_size(group) - 1);
    CHECK_OK(ls_group_set_timeout(group, a->timeout_s));
    CHECK_OK(ls_barrier(group));
    miss_the_last(group, a, reason);
}

/*
 * Rank 1 begins to wait for rank 2 after rank 0 has waited for rank 1 for more
 * than half of the timeout. It reports this long before rank 0 gives up.
 */
static void wait_late(ls_group *group, void *argument)
{
    absence *a = argument;
    CHECK_OK(ls_group_set_timeout(group, a->timeout_s));
    CHECK_OK(ls_barrier(group));
    if (ls_group_rank(group) == 1) {
        while (!has_told_whom(0))
            sched_yield();
        const uint64_t told_ns = lsi_clock_ns();
        while ((double)(lsi_clock_ns() - told_ns) < 0.4e9 * a->timeout_s)
            sched_yield();
    }
    miss_the_last(group, a, "rank 0 gave up waiting for rank 2 (host ");
}

/*
 * The rest of a timeout is for ranks to hear whom the others wait for. On a
 * busy machine it can be too short for a thread to run at all, so a wrong name
 * counts only if no longer timeout mends it.
 */
static void expect_last_is_blamed(const int *sizes, int nodes,
                                  ls_status (*wait)(ls_group *group),
                                  void (*body)(ls_group *, void *),
                                  double timeout_s)
{
    int wrong = 1;
    for (int try = 0; wrong > 0 && try < 3; try++) {
        absence a = {.wait = wait, .timeout_s = timeout_s};
        run_nodes(sizes, nodes, body, &a);
        wrong = atomic_load(&a.wrong);
        timeout_s *= 4;
    }
    assert_int_equal(wrong, 0);
}

/*
 * Rank 0 waits for the last one and so passes on nothing, for which others
 * wait: they must not blame rank 0.
 */
static void who_waits_is_not_to_blame(void **state)
{
    static const int four[] = {1, 1, 1, 1}, more[] = {2, 1, 2, 1, 1};
    (void)state;
    for (int i = 0; i < 2; i++) {
        expect_last_is_blamed(four, 4, ls_barrier, wait_at_once, 1.6);
        expect_last_is_blamed(more, 5, ls_barrier, wait_at_once, 1.6);
    }
    expect_last_is_blamed(uneven, 3, wait_in_turn, wait_at_once, 1.6);
}

static void who_waits_late_is_not_to_blame(void **state)
{
    static const int three[] = {1, 1, 1};
    (void)state;
    expect_last_is_blamed(three, 3, wait_in_turn, wait_late, 4);
}

/* The launcher, or somebody else, ends rank 0 while it waits. */
static void be_told_to_end(ls_group *group, void *argument)
{
    atomic_bool *over = argument;
    CHECK_OK(ls_barrier(group));
    if (ls_group_rank(group) == 1) {
        while (!atomic_load(over))
            usleep(1000);
        return;
    }
    setenv("LOCKSTEP_SIGTERM", "1", 1);
    CHECK_OK(lsi_sigterm_listen(group));
    CHECK(raise(SIGTERM) == 0);
    CHECK(alarm(0) > 0); /* by which a rank that computes would end */
    CHECK(raise(SIGTERM) == 0);
    CHECK(alarm(0) == 0); /* a repeat puts nothing off */
    CHECK(ls_barrier(group) == LS_ERR_TIMEOUT);
    CHECK(strstr(ls_last_error(), "rank 0 received SIGTERM while "
                                  "waiting for rank 1 (host ") != NULL);
    atomic_store(over, true);
}

/* The last one: from then on, all groups of this process are to end. */
static void who_is_told_to_end_blames_nobody(void **state)
{
    static const int two[] = {1, 1};
    atomic_bool over = false;
    (void)state;
    run_nodes(two, 2, be_told_to_end, &over);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_have_memory_of_their_own),
        cmocka_unit_test(parts_may_span_nodes_or_not),
        cmocka_unit_test(requests_are_in_flight_together),
        cmocka_unit_test(messages_reach_every_rank),
        cmocka_unit_test(who_is_late_is_not_flooded),
        cmocka_unit_test(refusals_and_differences_reach_all),
        cmocka_unit_test(a_rank_that_leaves_is_missed),
        cmocka_unit_test(a_cut_wire_is_noticed_in_time),
        cmocka_unit_test(who_waits_is_not_to_blame),
        cmocka_unit_test(who_waits_late_is_not_to_blame),
        cmocka_unit_test(who_has_waited_is_heard_again),
        cmocka_unit_test(who_is_told_to_end_blames_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

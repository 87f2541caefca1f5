/*
 * A rank of another node does its part and closes the group. The other ranks
 * may learn this before they have received all that it sent.
 */
#include "testing.h"

#include <sched.h>
#include <string.h>

#include "comm/core/engine.h"
#include "comm/core/peers.h"
#include "comm/net/internode.h"
#include "comm/state/state.h"
#include "nodes.h"

enum { SIZE = 3, LEAVER = 2, COUNT = 10000 };

static const int two_and_one[] = {2, 1};

/* ---- collectives --------------------------------------------------------- */

typedef struct scene {
    ls_status (*start)(ls_group *group, ls_request **request);
    int about; /* the kind of message that rank 0 gets late */
    atomic_int stage;
} scene;

static void await(scene *s, int stage)
{
    while (atomic_load(&s->stage) != stage)
        sched_yield();
}

/* Rank 0 cannot complete the request, although the leaver has. */
static void wait_for_leaver(ls_group *group, scene *s, ls_request *request)
{
    const lsi_member *const leaver = lsi_member_of(group, LEAVER);
    const int rank = ls_group_rank(group);
    ls_status status = LS_IN_PROGRESS;
    while (status == LS_IN_PROGRESS &&
           atomic_load(&leaver->presence) != LSI_LEFT)
        status = ls_test(request);
    CHECK(status == LS_IN_PROGRESS || (status == LS_OK && rank != 0));
    CHECK_OK(lsi_check_peers(group));
    atomic_fetch_add(&s->stage, 1);
    await(s, SIZE);
    if (rank == 0) {
        CHECK(ls_test(request) == LS_IN_PROGRESS);
        hold_back(-1, 0);
    }
    if (status == LS_IN_PROGRESS)
        CHECK_OK(ls_wait(request));
}

static void leave_or_stay(ls_group *group, void *argument)
{
    scene *const s = argument;
    const int rank = ls_group_rank(group);
    ls_request *request = NULL;
    CHECK_OK(ls_barrier(group));
    if (rank == 0) {
        hold_back(0, s->about);
        atomic_store(&s->stage, 1);
    }
    await(s, 1);
    CHECK_OK(s->start(group, &request));
    if (rank == LEAVER)
        CHECK_OK(ls_wait(request));
    else
        wait_for_leaver(group, s, request);
    ls_request_free(&request);
    if (rank == LEAVER)
        return; /* closes the group */
    CHECK(ls_barrier(group) == LS_ERR_PEER_DEAD);
    CHECK(strstr(ls_last_error(), "rank 2 (") != NULL);
    CHECK(strstr(ls_last_error(), "has closed the group") != NULL);
}

static ls_status start_exchange(ls_group *group, ls_request **request)
{
    static int32_t send[SIZE][SIZE * COUNT], recv[SIZE][SIZE * COUNT];
    const int rank = ls_group_rank(group);
    return ls_iall_to_all(group, send[rank], recv[rank], COUNT, LS_I32,
                          request);
}

static void late_parts_of_collectives_arrive(void **state)
{
    static scene scenes[] = {
        {.start = ls_ibarrier, .about = LSI_TAG_ARRIVALS},
        {.start = start_exchange,
         .about = LSI_TAG_ENVELOPE + LSI_CHANNEL_COLLECTIVE},
        {.start = start_exchange,
         .about = LSI_TAG_DATA + LSI_CHANNEL_COLLECTIVE},
    };
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(scenes); i++)
        run_nodes(two_and_one, 2, leave_or_stay, &scenes[i]);
}

/* ---- users' messages ----------------------------------------------------- */

typedef struct letter {
    int ranks[2]; /* on each node; the last rank leaves */
    int to, from; /* the receiver, and the rank that it names */
    int about;    /* the kind that the receiver gets late */
    atomic_int stage;
} letter;

/* Waits until the last rank is known to have left. */
static void receive_one(ls_group *group, const letter *l, ls_request **request,
                        int *data)
{
    const int last = ls_group_size(group) - 1;
    const lsi_member *const leaver = lsi_member_of(group, last);
    CHECK_OK(ls_irecv(group, data, 1, LS_I32, l->from, 0, request));
    while (atomic_load(&leaver->presence) != LSI_LEFT)
        CHECK_OK(lsi_progress(group));
}

static void complete(ls_request **request, const int *data)
{
    CHECK_OK(ls_wait(*request));
    CHECK(*data == 7);
    ls_request_free(request);
}

/* The second message that it asks for is never sent. */
static void receive_two(ls_group *group, const letter *l)
{
    const bool end_is_late = l->about == LSI_TAG_CONTROL;
    ls_request *request = NULL;
    int data = 0, none = 0;
    receive_one(group, l, &request, &data);
    if (end_is_late) {
        complete(&request, &data);
        receive_one(group, l, &request, &none);
    }
    CHECK_OK(lsi_check_peers(group));
    CHECK(ls_test(request) == LS_IN_PROGRESS);
    hold_back(-1, 0);
    if (!end_is_late) {
        complete(&request, &data);
        receive_one(group, l, &request, &none);
    }
    CHECK(ls_wait(request) == LS_ERR_PEER_DEAD);
    CHECK(strstr(ls_last_error(), "has closed the group") != NULL);
    ls_request_free(&request);
}

static void hold_for(letter *l, int rank)
{
    if (rank == l->to) {
        hold_back(rank, l->about);
        atomic_store(&l->stage, 1);
    }
    while (atomic_load(&l->stage) == 0)
        sched_yield();
}

static void send_and_leave(ls_group *group, void *argument)
{
    letter *const l = argument;
    const int rank = ls_group_rank(group), data = 7;
    CHECK_OK(ls_group_set_timeout(group, 100));
    CHECK_OK(ls_barrier(group));
    hold_for(l, rank);
    if (rank == ls_group_size(group) - 1) {
        CHECK_OK(ls_send(group, &data, 1, LS_I32, l->to, 0));
        return; /* closes the group */
    }
    if (rank == l->to) {
        receive_two(group, l);
        atomic_store(&l->stage, 2);
    }
    while (atomic_load(&l->stage) == 1)
        (void)lsi_progress(group); /* receives control messages */
}

static void late_messages_arrive(void **state)
{
    enum {
        ENVELOPE = LSI_TAG_ENVELOPE + LSI_CHANNEL_USER,
        DATA = LSI_TAG_DATA + LSI_CHANNEL_USER
    };
    static letter letters[] = {
        {.ranks = {2, 1}, .to = 1, .from = 2, .about = ENVELOPE},
        {.ranks = {2, 1}, .to = 1, .from = 2, .about = DATA},
        {.ranks = {2, 1}, .to = 1, .from = 2, .about = LSI_TAG_CONTROL},
        {.ranks = {1, 1}, .to = 0, .from = 1, .about = ENVELOPE},
        {.ranks = {1, 1}, .to = 0, .from = LS_ANY_RANK, .about = ENVELOPE},
    };
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(letters); i++)
        run_nodes(letters[i].ranks, 2, send_and_leave, &letters[i]);
}

/* The leaver has sent a message to rank 1, which is late, and none to rank 0.
 */
static void expect_too_much(ls_group *group, void *argument)
{
    const int rank = ls_group_rank(group);
    int data = 7;
    CHECK_OK(ls_group_set_timeout(group, 100));
    CHECK_OK(ls_barrier(group));
    hold_for(argument, rank);
    if (rank == LEAVER) {
        CHECK_OK(ls_send(group, &data, 1, LS_I32, 1, 0));
        return; /* closes the group */
    }
    CHECK(ls_recv(group, &data, 1, LS_I32, LEAVER, 0) == LS_ERR_PEER_DEAD);
    CHECK(strstr(ls_last_error(), "rank 2 (") != NULL);
}

static void messages_that_were_not_sent_are_missed(void **state)
{
    letter l = {.to = 1, .about = LSI_TAG_ENVELOPE + LSI_CHANNEL_USER};
    (void)state;
    run_nodes(two_and_one, 2, expect_too_much, &l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(late_parts_of_collectives_arrive),
        cmocka_unit_test(late_messages_arrive),
        cmocka_unit_test(messages_that_were_not_sent_are_missed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

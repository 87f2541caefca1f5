/*
 * A rank of another node completes a collective and closes the group. The other
 * ranks may learn this before they have received all that it sent.
 */
#include "testing.h"

#include <sched.h>
#include <string.h>

#include "comm/core/peers.h"
#include "comm/net/internode.h"
#include "comm/state/state.h"
#include "nodes.h"

enum { SIZE = 3, LEAVER = 2, COUNT = 10000 };

static const int two_and_one[] = {2, 1};

typedef struct scene {
    ls_status (*start)(ls_group *group, ls_request **request);
    int about; /* what rank 0 gets late */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(late_parts_of_collectives_arrive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * Groups that span nodes and are made at once, by several threads: what is sent
 * in one does not arrive in the other.
 */
#include "testing.h"

#include "comm/api/group.h"
#include "comm/api/internode_open.h"
#include "comm/core/agree.h"
#include "comm/core/collective.h"
#include "comm/node/space.h"
#include "nodes.h"

/* The same ranks once more, under numbers that they have got before. */
static ls_group *open_again(ls_group *group, const int *ids)
{
    const lsi_call call = {.operation = LSI_OP_SPLIT};
    const lsi_internode *net = group->net;
    uint64_t offset = 0, offsets[6];
    ls_group *local = NULL, *made = NULL;
    CHECK_OK(ls_group_split(group, net->node, 0, &local));
    if (ls_group_rank(local) == 0)
        offset =
            lsi_space_allocate(local, lsi_region_layout_of(group->size).bytes);
    CHECK_OK(lsi_exchange(local, &call, &offset, sizeof(offset), offsets));
    const lsi_internode_plan plan = {.wire = net->wire,
                                     .rank = group->rank,
                                     .size = group->size,
                                     .job = net->job,
                                     .world = net->world,
                                     .peer = net->peer,
                                     .id = ids,
                                     .place = net->node_of,
                                     .local = local,
                                     .offset = offsets[0]};
    CHECK_OK(lsi_internode_open(&plan, &made));
    return made;
}

/*
 * Two threads of each process take their numbers before any of them opens its
 * group, and not in the same order everywhere.
 */
static void open_two_at_once(ls_group *group, void *unused)
{
    const lsi_call call = {.operation = LSI_OP_SPLIT};
    const int rank = group->rank, last = group->size - 1;
    const bool first = rank % 2 == 0;
    int own[2], all[2][6], word[2] = {1, 2};
    ls_request *requests[2] = {NULL};
    (void)unused;
    own[first ? 0 : 1] = lsi_internode_new_id();
    own[first ? 1 : 0] = lsi_internode_new_id();
    ls_group *two[2];
    for (int i = 0; i < 2; i++)
        CHECK_OK(lsi_exchange(group, &call, &own[i], sizeof(int), all[i]));
    for (int i = 0; i < 2; i++)
        two[i] = open_again(group, all[i]);
    for (int i = 0; i < 2; i++)
        CHECK_OK(lsi_group_settle(two[i]));
    /* Sent in one order, and received in the other. */
    for (int i = 0; rank == 0 && i < 2; i++)
        CHECK_OK(ls_isend(two[i], &word[i], 1, LS_I32, last, 0, &requests[i]));
    for (int i = 2; rank == last && i-- > 0;) {
        CHECK_OK(ls_recv(two[i], &word[0], 1, LS_I32, 0, 0));
        CHECK(word[0] == i + 1);
    }
    for (int i = 0; i < 2; i++) {
        if (rank == 0)
            CHECK_OK(ls_wait(requests[i]));
        ls_request_free(&requests[i]);
        CHECK_OK(ls_barrier(two[i]));
        ls_group_close(&two[i]);
    }
}

static void groups_made_at_once_do_not_mix(void **state)
{
    static const int two_by_two[] = {2, 2}, uneven[] = {2, 1, 3};
    (void)state;
    run_nodes(two_by_two, 2, open_two_at_once, NULL);
    run_nodes(uneven, 3, open_two_at_once, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_made_at_once_do_not_mix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

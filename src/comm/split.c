/*
 * Sub-groups. They live in the memory of the same job: the first rank of each
 * part reserves a range for its control region and tells the others where.
 */
#include "base/error.h"
#include "comm/agree.h"
#include "comm/check.h"
#include "comm/collective.h"
#include "comm/open.h"
#include "comm/shared.h"
#include "comm/twin.h"

typedef struct wish {
    int32_t color, key;
} wish;

/* How many ranks share this rank's color, who leads, and one's new rank. */
typedef struct part {
    int size, rank, leader;
} part;

/* Whether rank a comes before rank b in the order of (key, rank). */
static bool before(const wish *wishes, int a, int b)
{
    return wishes[a].key != wishes[b].key ? wishes[a].key < wishes[b].key
                                          : a < b;
}

static part part_of(const wish *wishes, int size, int rank)
{
    part mine = {.leader = rank};
    for (int r = 0; r < size; r++) {
        if (wishes[r].color != wishes[rank].color)
            continue;
        mine.size++;
        mine.rank += before(wishes, r, rank);
        if (before(wishes, r, mine.leader))
            mine.leader = r;
    }
    return mine;
}

static ls_status open_part(ls_group *group, part mine, uint64_t offset,
                           ls_group **out)
{
    const lsi_membership membership = {
        mine.rank, mine.size, lsi_member_of(group, group->rank)->node_rank,
        offset};
    return lsi_group_open(lsi_node_share(group->node), membership, out);
}

ls_status ls_group_split(ls_group *group, int color, int key, ls_group **out)
{
    LS_TRY(lsi_check_group(group, "ls_group_split"));
    const lsi_call call = {.operation = LSI_OP_SPLIT};
    if (out == NULL)
        return lsi_refuse(
            group, &call,
            lsi_fail(LS_ERR_ARGUMENT, "ls_group_split: no place for a group"));
    wish wishes[LSI_MAX_RANKS];
    const wish own = {color < 0 ? -1 : color, key};
    LS_TRY(lsi_exchange(group, &call, &own, sizeof(own), wishes));
    const part mine = part_of(wishes, group->size, group->rank);
    uint64_t offset = 0, offsets[LSI_MAX_RANKS];
    if (color >= 0 && mine.leader == group->rank)
        offset = lsi_reserve(group, lsi_layout_of(mine.size).bytes);
    LS_TRY(lsi_exchange(group, &call, &offset, sizeof(offset), offsets));
    ls_group *made = NULL;
    ls_status status = LS_OK;
    if (color >= 0)
        status = open_part(group, mine, offsets[mine.leader], &made);
    status = lsi_agree(group, &call, status);
    if (status == LS_OK && made != NULL) {
        made->timeout_ns = group->timeout_ns;
        status = lsi_group_settle(made);
    }
    if (status != LS_OK) {
        ls_group_close(&made);
        return status;
    }
    *out = made;
    return LS_OK;
}

ls_status lsi_group_twin(ls_group *group, ls_group **out)
{
    ls_group *made = NULL;
    LS_TRY(lsi_check_group(group, "a twin"));
    LS_TRY(ls_group_split(group, 0, group->rank, &made));
    made->twin_of = group;
    made->counters = group->counters;
    *made->select = *group->select;
    *out = made;
    return LS_OK;
}

/*
 * Sub-groups. They live in the memory of the same job: the first rank of each
 * part, on each node, reserves a range for its control region and tells the
 * others where.
 */
#include <assert.h>

#include "base/error.h"
#include "comm/api/check.h"
#include "comm/api/group.h"
#include "comm/api/internode_open.h"
#include "comm/core/agree.h"
#include "comm/node/space.h"
#include "comm/node/transport.h"
#include "comm/state/channels.h"

typedef struct wish {
    int32_t color, key;
} wish;

/* The ranks of this rank's color: all of them, and those on its node. */
typedef struct part {
    int size, rank;
    int here, here_rank;
    int leader; /* first rank on this node */
} part;

/* A rank's contribution to its part. */
typedef struct site {
    /* Reserved by the first rank on a node, for the others there. */
    uint64_t offset; /* of the part's control region */
    uint64_t local;  /* of the control region of its ranks on this node */
    int32_t id;      /* its number for the part, if that spans nodes */
} site;

/* Whether rank a comes before rank b in the order of (key, rank). */
static bool before(const wish *wishes, int a, int b)
{
    return wishes[a].key != wishes[b].key ? wishes[a].key < wishes[b].key
                                          : a < b;
}

static part part_of(const ls_group *group, const wish *wishes)
{
    const int rank = group->rank;
    part mine = {.leader = rank};
    for (int r = 0; r < group->size; r++) {
        if (wishes[r].color != wishes[rank].color)
            continue;
        const bool here = lsi_shares_memory(group, r);
        const bool earlier = before(wishes, r, rank);
        mine.size++;
        mine.rank += earlier;
        mine.here += here;
        mine.here_rank += here && earlier;
        if (here && before(wishes, r, mine.leader))
            mine.leader = r;
    }
    return mine;
}

static site reserve(ls_group *group, part mine)
{
    site made = {.id = mine.here < mine.size ? lsi_internode_new_id() : 0};
    if (mine.leader != group->rank)
        return made;
    made.offset =
        lsi_space_allocate(group, lsi_region_layout_of(mine.size).bytes);
    if (mine.here < mine.size)
        made.local =
            lsi_space_allocate(group, lsi_region_layout_of(mine.here).bytes);
    return made;
}

static ls_status open_here(ls_group *group, int rank, int size, uint64_t offset,
                           ls_group **out)
{
    const lsi_membership membership = {
        .rank = rank,
        .size = size,
        .sharers = size,
        .node_rank = lsi_member_of(group, group->rank)->node_rank,
        .offset = offset};
    return lsi_group_open(lsi_node_memory_share(group->memory.node), membership,
                          out);
}

/* The members of this rank's part in their new order. */
static void list_members(const ls_group *group, const wish *wishes,
                         int *members)
{
    for (int r = 0; r < group->size; r++) {
        int place = 0;
        if (wishes[r].color != wishes[group->rank].color)
            continue;
        for (int q = 0; q < group->size; q++)
            place += wishes[q].color == wishes[r].color && before(wishes, q, r);
        members[place] = r;
    }
}

static ls_status open_part(ls_group *group, const wish *wishes,
                           const site *sites, ls_group **out)
{
    const part mine = part_of(group, wishes);
    const site at = sites[mine.leader];
    int members[LSI_MAX_RANKS], id[LSI_MAX_RANKS];
    lsi_internode_plan plan = {
        .rank = mine.rank, .size = mine.size, .id = id, .offset = at.offset};
    if (mine.here == mine.size)
        return open_here(group, mine.rank, mine.size, at.offset, out);
    LS_TRY(open_here(group, mine.here_rank, mine.here, at.local, &plan.local));
    list_members(group, wishes, members);
    for (int i = 0; i < mine.size; i++)
        id[i] = sites[members[i]].id;
    return lsi_internode_open_part(group, members, plan, out);
}

ls_status ls_group_split(ls_group *group, int color, int key, ls_group **out)
{
    LS_TRY(lsi_check_group(group, "ls_group_split"));
    const lsi_call call = {.operation = LSI_OP_SPLIT};
    if (out == NULL)
        return lsi_refuse(
            group, &call,
            lsi_fail(LS_ERR_ARGUMENT, "ls_group_split: part is NULL"));
    wish wishes[LSI_MAX_RANKS];
    const wish own = {color < 0 ? -1 : color, key};
    LS_TRY(lsi_exchange(group, &call, &own, sizeof(own), wishes));
    site reserved = {0}, sites[LSI_MAX_RANKS];
    if (color >= 0)
        reserved = reserve(group, part_of(group, wishes));
    LS_TRY(lsi_exchange(group, &call, &reserved, sizeof(reserved), sites));
    ls_group *made = NULL;
    ls_status status = LS_OK;
    if (color >= 0)
        status = open_part(group, wishes, sites, &made);
    status = lsi_agree(group, &call, status);
    if (status == LS_OK && made != NULL) {
        made->waiting.timeout_ns = group->waiting.timeout_ns;
        made->channels.local->waiting.timeout_ns = group->waiting.timeout_ns;
        status = lsi_group_settle(made);
    }
    if (status != LS_OK) {
        ls_group_close(&made);
        return status;
    }
    *out = made;
    return LS_OK;
}

ls_status lsi_group_dup(ls_group *group, ls_group **out)
{
    ls_group *made = NULL;
    LS_TRY(lsi_check_group(group, "duplicate of a group"));
    LS_TRY(ls_group_split(group, 0, group->rank, &made));
    assert(made != NULL); /* a rank with a color gets a group */
    made->dup_of = group;
    made->counters = group->counters;
    made->channels.local->dup_of = group->channels.local;
    made->channels.local->counters = group->counters;
    *made->select = *group->select;
    made->memory.can_copy = group->memory.can_copy;
    *out = made;
    return LS_OK;
}

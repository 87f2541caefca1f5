#include "comm/api/internode_open.h"

#include <string.h>

#include "base/cpu_claim.h"
#include "base/error.h"
#include "base/memory.h"
#include "comm/api/group.h"
#include "comm/api/place.h"
#include "comm/api/select.h"
#include "comm/core/agree.h"
#include "comm/health/dump.h"
#include "comm/health/sigterm.h"
#include "comm/net/control.h"
#include "comm/node/transport.h"
#include "comm/schedule/nodes.h"
#include "comm/state/channels.h"

static _Atomic int next_id; /* of this process */

int lsi_internode_new_id(void)
{
    return atomic_fetch_add(&next_id, 1);
}

/* Numbers the nodes in the order of their first ranks. */
static void find_nodes(lsi_internode *net, const lsi_internode_plan *plan)
{
    for (int r = 0; r < plan->size; r++) {
        int first = 0;
        while (plan->place[first] != plan->place[r])
            first++;
        net->world[r] = plan->world[r];
        net->peer[r] = plan->peer[r];
        net->id[r] = plan->id[r];
        net->node_of[r] = first == r ? net->nodes++ : net->node_of[first];
        net->index_of[r] = net->ranks_on[net->node_of[r]]++;
    }
    for (int k = 1; k < net->nodes; k++)
        net->first[k] = net->first[k - 1] + net->ranks_on[k - 1];
    for (int r = 0; r < plan->size; r++)
        net->rank[net->first[net->node_of[r]] + net->index_of[r]] = r;
    net->own = plan->rank;
    net->node = net->node_of[plan->rank];
    net->rails = lsi_rails_between(net->ranks_on, net->nodes);
}

static ls_status allocate(lsi_internode *net, const lsi_internode_plan *plan)
{
    enum { MAPS = 8 };
    const size_t n = (size_t)plan->size;
    void *block = NULL;
    LS_TRY(lsi_alloc_zeroed(&block, MAPS * n * sizeof(int), LS_MEMORY_COMM,
                            "a group that spans nodes"));
    int **const maps[MAPS] = {&net->world,   &net->peer,     &net->id,
                              &net->node_of, &net->index_of, &net->ranks_on,
                              &net->first,   &net->rank};
    for (size_t i = 0; i < MAPS; i++)
        *maps[i] = (int *)block + i * n;
    LS_TRY(lsi_alloc_zeroed(&block, n * sizeof(lsi_control_slot),
                            LS_MEMORY_COMM, "a group that spans nodes"));
    net->control = block;
    find_nodes(net, plan);
    return plan->local->rank == 0 ? lsi_arrivals_open(&net->arrivals, n)
                                  : LS_OK;
}

static void release(lsi_internode *net)
{
    lsi_arrivals_close(&net->arrivals);
    lsi_free(net->control);
    lsi_free(net->world); /* with the other maps, in the same block */
    ls_group_close(&net->local);
    lsi_free(net);
}

/* All ranks check the same numbers, and reach the same result. */
static ls_status check_tags(const lsi_internode_plan *plan)
{
    const int most = plan->wire->highest_tag / LSI_TAGS;
    for (int r = 0; r < plan->size; r++)
        if (plan->id[r] < 0 || plan->id[r] >= most)
            return lsi_fail(LS_ERR_UNSUPPORTED,
                            "rank %d has created %d groups that span nodes; %s "
                            "has no message tags left for another group. Reuse "
                            "groups instead of creating new ones",
                            r, plan->id[r], plan->wire->library);
    return LS_OK;
}

static ls_status make(const lsi_internode_plan *plan, lsi_internode **out)
{
    lsi_internode *net = NULL;
    ls_group *local = plan->local;
    ls_status status =
        lsi_alloc_zeroed(&net, sizeof(lsi_internode), LS_MEMORY_COMM,
                         "a group that spans nodes");
    if (status != LS_OK) {
        ls_group_close(&local);
        return status;
    }
    net->local = local;
    net->wire = plan->wire;
    net->job = plan->job;
    status = allocate(net, plan);
    if (status == LS_OK)
        status = check_tags(plan);
    if (status != LS_OK)
        release(net);
    else
        *out = net;
    return status;
}

static void bind_channels(ls_group *group, lsi_internode *net)
{
    for (int r = 0; r < group->size; r++) {
        lsi_peer *peer = &group->channels.peer[r];
        if (net->node_of[r] == net->node)
            peer->local_rank = net->index_of[r];
        else
            *peer = (lsi_peer){&lsi_channel_wire, -1};
    }
    group->net = net;
    if (lsi_nodes_have_places(net))
        lsi_select_places(group->select);
    group->channels.local = net->local;
    group->channels.hooks = &lsi_wire_hooks;
    /*
     * The number of the group on its first rank, and that rank's number in the
     * job.
     */
    group->identity =
        (lsi_group_identity){.job = net->job,
                             .number = (uint64_t)net->id[0] * LSI_MAX_RANKS +
                                       (uint64_t)net->world[0]};
}

/* The group, which has taken over what the plan held. */
static ls_status open_bound(const lsi_internode_plan *plan, ls_group **out)
{
    lsi_internode *net = NULL;
    const ls_group *local = plan->local;
    const int own = lsi_member_of(local, local->rank)->node_rank;
    lsi_node_memory *node = local->memory.node;
    LS_TRY(make(plan, &net));
    const lsi_membership membership = {.rank = plan->rank,
                                       .size = plan->size,
                                       .sharers = local->size,
                                       .node_rank = own,
                                       .offset = plan->offset,
                                       .spans = true};
    const ls_status status =
        lsi_group_open(lsi_node_memory_share(node), membership, out);
    if (status != LS_OK)
        release(net);
    else
        bind_channels(*out, net);
    return status;
}

ls_status lsi_internode_open(const lsi_internode_plan *plan, ls_group **out)
{
    ls_group *group = NULL;
    ls_status status = open_bound(plan, &group);
    if (status != LS_OK) {
        lsi_peers_let_go(plan->wire, plan->peer, plan->size);
        return status;
    }
    lsi_internode *net = group->net;
    lsi_dump_leave(net->local); /* the records are those of the whole group */
    lsi_dump_join(group);
    net->local->counters = group->counters;
    status = lsi_control_listen(group);
    if (status != LS_OK)
        ls_group_close(&group);
    else
        *out = group;
    return status;
}

ls_status lsi_internode_open_part(const ls_group *whole, const int *members,
                                  lsi_internode_plan plan, ls_group **out)
{
    int world[LSI_MAX_RANKS], peer[LSI_MAX_RANKS], place[LSI_MAX_RANKS];
    for (int i = 0; i < plan.size; i++) {
        world[i] = whole->net->world[members[i]];
        peer[i] = whole->net->peer[members[i]];
        place[i] = whole->net->node_of[members[i]];
    }
    plan.world = world;
    plan.peer = peer;
    plan.place = place;
    plan.wire = whole->net->wire;
    plan.job = whole->net->job;
    lsi_peers_hold(plan.wire, peer, plan.size);
    return lsi_internode_open(&plan, out);
}

/* Facts about a rank that ranks of other nodes cannot read in its memory. */
typedef struct introduction {
    char host[LSI_HOST_BYTES];
    int32_t pid;
    uint64_t machine, quota_of; /* as in lsi_cpu_claim */
    double quota;
    uint64_t cpus[LSI_CPU_WORDS];
} introduction;

static introduction introduce(const lsi_member *self)
{
    introduction own = {.pid = self->pid};
    lsi_cpu_claim claim;
    lsi_cpu_claim_here(1, &claim);
    own.machine = claim.machine;
    own.quota_of = claim.quota_of;
    own.quota = claim.quota;
    memcpy(own.host, self->host, sizeof(own.host));
    memcpy(own.cpus, claim.cpus.words, sizeof(own.cpus));
    return own;
}

/*
 * Computes this rank's share of the machine's CPUs if other nodes are on the
 * same machine. Local: without memory, the CPUs are not divided.
 */
static void divide_cpus(ls_group *group, const introduction *all)
{
    lsi_cpu_claim *claims = NULL;
    if (lsi_alloc_zeroed(&claims, (size_t)group->size * sizeof(lsi_cpu_claim),
                         LS_MEMORY_COMM, "CPU sets of the ranks") != LS_OK)
        return;
    bool beside = false;
    for (int r = 0; r < group->size; r++) {
        claims[r] = (lsi_cpu_claim){.machine = all[r].machine,
                                    .quota_of = all[r].quota_of,
                                    .quota = all[r].quota,
                                    .ranks = 1};
        memcpy(claims[r].cpus.words, all[r].cpus, sizeof(all[r].cpus));
        beside = beside || (!lsi_shares_memory(group, r) &&
                            all[r].machine == all[group->rank].machine);
    }
    group->cpus_share = beside
                            ? lsi_cpu_claim_share(claims, (size_t)group->size,
                                                  (size_t)group->rank)
                            : 0;
    lsi_free(claims);
}

ls_status lsi_internode_introduce(ls_group *group)
{
    if (!lsi_spans_nodes(group))
        return LS_OK;
    const lsi_call call = {.operation = LSI_OP_SPLIT};
    const lsi_member *self = lsi_member_of(group, group->rank);
    const introduction own = introduce(self);
    introduction *all = NULL;
    LS_TRY(lsi_alloc(&all, (size_t)group->size * sizeof(own), LS_MEMORY_COMM,
                     "host names of the ranks"));
    const ls_status status = lsi_exchange(group, &call, &own, sizeof(own), all);
    if (status == LS_OK)
        divide_cpus(group, all);
    for (int r = 0; status == LS_OK && r < group->size; r++) {
        lsi_member *member = lsi_member_of(group, r);
        if (lsi_shares_memory(group, r) || group->net->local->rank != 0)
            continue;
        memcpy(member->host, all[r].host, sizeof(member->host));
        member->host[sizeof(member->host) - 1] = '\0';
        member->pid = all[r].pid;
    }
    lsi_free(all);
    return status;
}

void lsi_internode_close(ls_group *group)
{
    lsi_internode *net = group->net;
    if (!lsi_spans_nodes(group))
        return;
    lsi_sigterm_forget(group);
    if (!group->failed && !lsi_has_failed(group))
        lsi_control_announce_leaving(group);
    lsi_channels_abandon(group);
    lsi_wire_retire(net);
    lsi_peers_let_go(net->wire, net->peer, group->size);
    release(net);
    group->net = NULL;
    group->channels.hooks = NULL;
}

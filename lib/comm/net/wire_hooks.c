/* The hooks of the channels of a group that spans nodes. */
#include "base/error.h"
#include "comm/health/awaited.h"
#include "comm/net/control.h"

static ls_status progress(ls_group *group)
{
    LS_TRY(lsi_control_progress(group));
    return lsi_arrivals_progress(group);
}

/* ---- whom this rank waits for -------------------------------------------- */

/* Ranks of other nodes arrive here by way of the first rank of this one. */
static int late_elsewhere(const ls_group *group)
{
    const int late = lsi_first_behind(group, false);
    if (late < 0)
        return -1;
    const lsi_internode *net = group->net;
    const int leader = net->rank[net->first[net->node]];
    if (leader != group->rank)
        return leader;
    return net->arrivals.in.pending ? net->arrivals.in.rank : late;
}

/* The other end of a message that an algorithm has sent or awaits. */
static int flying_peer(const lsi_internode *net)
{
    int sent_to = -1;
    for (const lsi_wire_request *f = net->pending; f != NULL; f = f->next) {
        if (f == &net->receive_control || f == &net->arrivals.in ||
            f == &net->arrivals.out || f == &net->control[f->rank].request)
            continue;
        if (f->receives)
            return f->rank;
        sent_to = f->rank;
    }
    return sent_to;
}

static int late_inside(const ls_group *group)
{
    const lsi_internode *net = group->net;
    const int late = lsi_first_behind(net->local, true);
    return late < 0 ? -1 : net->rank[net->first[net->node] + late];
}

static int awaited(const ls_group *group)
{
    int late = late_elsewhere(group);
    if (late < 0)
        late = flying_peer(group->net);
    return late < 0 ? late_inside(group) : late;
}

const lsi_internode_hooks lsi_wire_hooks = {
    .progress = progress,
    .awaited = awaited,
    .announce_awaits = lsi_control_announce_awaits,
    .announce_failure = lsi_control_announce_failure,
    .abandon = lsi_control_abandon,
};

#include "comm/awaited.h"

#include "comm/internode.h"

bool lsi_is_behind(const ls_group *group, int rank)
{
    const lsi_collective *op = group->queue.first;
    if (op == NULL)
        return false;
    if (op->state < LSI_COLLECTIVE_ENTERED)
        return group->queue.seen[rank] < op->sequence - LSI_CELLS;
    const lsi_cell *cell = lsi_cell_of(group, op->sequence, rank);
    return atomic_load(&cell->stamp) < lsi_stamp(op->sequence, op->phase);
}

/* ---- what this rank waits for -------------------------------------------- */

static bool is_on_node(const ls_group *group, int rank)
{
    return !lsi_on_other_node(group, rank);
}

/* The first other rank that is behind, of this node or of the others. */
static int first_behind(const ls_group *group, bool on_node)
{
    for (int r = 0; r < group->size; r++)
        if (r != group->rank && is_on_node(group, r) == on_node &&
            lsi_is_behind(group, r))
            return r;
    return -1;
}

/* Ranks of other nodes arrive here by way of the first rank of this one. */
static int late_from_afar(const ls_group *group)
{
    const int late = first_behind(group, false);
    if (late < 0)
        return -1;
    const lsi_internode *net = group->net;
    const int bringer = net->rank[net->first[net->node]];
    if (bringer != group->rank)
        return bringer;
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
    const int late = first_behind(net->local, true);
    return late < 0 ? -1 : net->rank[net->first[net->node] + late];
}

/* -1 if it is nobody in particular. */
static int awaited(const ls_group *group)
{
    if (group->streams.active != NULL)
        return group->streams.active->peer;
    int late = first_behind(group, true);
    if (late >= 0 || group->net == NULL)
        return late;
    late = late_from_afar(group);
    if (late < 0)
        late = flying_peer(group->net);
    return late < 0 ? late_inside(group) : late;
}

/* ---- what the others know ------------------------------------------------ */

static _Atomic uint32_t *own_note(const ls_group *group)
{
    return &lsi_member_of(group, group->rank)->awaits;
}

void lsi_awaited_note(ls_group *group)
{
    atomic_store(own_note(group), (uint32_t)(awaited(group) + 1));
}

void lsi_awaited_tell(ls_group *group)
{
    if (group->net != NULL)
        lsi_internode_tell_awaits(group);
}

void lsi_awaited_forget(ls_group *group, bool told)
{
    if (atomic_exchange(own_note(group), 0) != 0 && told)
        lsi_awaited_tell(group);
}

int lsi_awaited_last(const ls_group *group)
{
    int last = group->rank;
    for (int steps = 0; steps < group->size; steps++) {
        const uint32_t next = atomic_load(&lsi_member_of(group, last)->awaits);
        if (next == 0)
            return last;
        last = (int)next - 1;
    }
    return (int)atomic_load(own_note(group)) - 1; /* a circle */
}

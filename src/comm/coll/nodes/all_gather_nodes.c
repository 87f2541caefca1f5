/*
 * All-gather of ranks on several nodes. What the ranks of another node own
 *
 *   between nodes    comes to the ranks of this node, each its share of it
 *   inside a node    is taken from there by the others
 *
 * so the way of reduce_scatter_nodes.c backwards:
 *
 *   host 0  rank 0 |a| | | |   c -> rank 0   |a| |c| |
 *           rank 1 | |b| | |   d -> rank 1   | |b| |d|   and take
 *   host 1  rank 2 | | |c| |   a -> rank 2   |a| |c| |   each other's
 *           rank 3 | | | |d|   b -> rank 3   | |b| |d|
 *
 * The nodes of the others come in turns, and the part of each in windows: while
 * one is on its way, the one before is passed on. Bytes that leave a node: what
 * its ranks have, once to each other node.
 */
#include "base/error.h"
#include "comm/coll/algorithm.h"
#include "comm/coll/move/move.h"
#include "comm/coll/nest.h"
#include "comm/coll/nodes/nodes_shares.h"
#include "comm/core/paths.h"
#include "comm/net/internode.h"
#include "comm/schedule/shares.h"

size_t lsi_all_gather_nodes_scratch(const lsi_collective *op)
{
    if (op->group->net == NULL)
        return 0; /* cannot be used, which the ranks will find */
    return lsi_relay_bytes(op);
}

static unsigned char *result_at(const lsi_collective *op, size_t element)
{
    return (unsigned char *)op->recv + element * op->item;
}

/* ---- what there is to do ------------------------------------------------- */

/* From the owners of what this rank carries. */
static void add_ins(lsi_collective *op, const lsi_stretch *s)
{
    for (int r = s->rank; r < s->rank + s->ranks; r++) {
        const lsi_range part = lsi_range_common(s->own, lsi_block_of(op, r));
        lsi_add_trip(op, r, true, part, result_at(op, part.begin), op->item);
    }
}

/* To those who carry what this rank owns. */
static void add_outs(lsi_collective *op, int node)
{
    const lsi_internode *net = op->group->net;
    for (int i = 0; i < net->ranks_on[node]; i++) {
        const int rank = net->rank[net->first[node] + i];
        const lsi_range part = lsi_own_carried(op, rank);
        lsi_add_trip(op, rank, false, part, result_at(op, part.begin),
                     op->item);
    }
}

/* The node's own part comes first: it is there already. */
static void open_relay(lsi_collective *op)
{
    const lsi_internode *net = op->group->net;
    lsi_relay *relay = lsi_relay_of(op);
    lsi_relay_clear(op);
    lsi_move_own(op);
    for (int turn = -1; turn < net->nodes - 1; turn++) {
        const int to = lsi_turn_to(net->nodes, net->node, turn);
        const int from = lsi_turn_from(net->nodes, net->node, turn);
        if (to != net->node)
            add_outs(op, to);
        lsi_stretch *s = &lsi_stretches(op)[relay->stretches];
        for (int i = 0; lsi_next_stretch(op, from, &i, s); s++) {
            if (from != net->node)
                add_ins(op, s);
            relay->stretches++;
        }
    }
}

/* ---- inside the node ----------------------------------------------------- */

/* Once this rank has its share of the window. */
static ls_status begin_spread(const lsi_collective *op, lsi_collective *inside,
                              const lsi_stretch *s, lsi_cut cut)
{
    const lsi_range own = lsi_own_window(op, s, &cut);
    if (lsi_arrived_upto(op, own) < own.end)
        return LS_IN_PROGRESS;
    const lsi_call call = {.operation = LSI_OP_GATHER_SHARDS,
                           .dtype = op->call.dtype,
                           .root = LSI_ROOT_ALL,
                           .count = lsi_range_size(s->elements)};
    unsigned char *data = result_at(op, s->elements.begin);
    cut.rails = (size_t)op->group->net->local->size;
    lsi_collective_nest(inside, op->group->net->local, &call, data, data);
    inside->cut = cut;
    return lsi_collective_submit(inside);
}

/* ---- moving on ----------------------------------------------------------- */

static bool all_begun(const lsi_collective *op)
{
    lsi_cut cut;
    return lsi_window_at(op, &lsi_relay_of(op)->begun, &cut) == NULL;
}

static ls_status move_on(lsi_collective *op)
{
    const lsi_relay *relay = lsi_relay_of(op);
    if (op->step == 0)
        open_relay(op);
    op->step = 1;
    const ls_status outs = lsi_move_outs(op), ins = lsi_move_ins(op);
    if (outs != LS_OK && outs != LS_IN_PROGRESS)
        return outs;
    if (ins != LS_OK && ins != LS_IN_PROGRESS)
        return ins;
    LS_TRY(lsi_windows_done(op));
    LS_TRY(lsi_begin_windows(op, begin_spread));
    const bool over = outs == LS_OK && ins == LS_OK && all_begun(op) &&
                      relay->done.passed == relay->begun.passed;
    return over ? LS_OK : LS_IN_PROGRESS;
}

ls_status lsi_all_gather_nodes(lsi_collective *op)
{
    return lsi_internode_advance(op, move_on);
}

/*
 * Reduce-scatter and all-gather of ranks on several nodes: stages of
 * pipeline.h. A segment is a window of the elements that the ranks of another
 * node own. Each rank of this node carries a share of it (schedule/shares.h).
 * All other nodes have a turn with each window, the next node first. At the
 * same time, a node adds up, or gathers, the elements that its own ranks own.
 * So sums of a few windows are in memory, whatever the length of the vector.
 *
 * Reduce-scatter, into blocks of one size or shards of any: sums go from their
 * carriers to the owners, which fold them with the sums of this node.
 *
 *   host 0  rank 0 |a0|b0|c0|d0|   c0+c1 -> rank 2    a = (a0+a1) + (a2+a3)
 *           rank 1 |a1|b1|c1|d1|   d0+d1 -> rank 3    b
 *   host 1  rank 2 |a2|b2|c2|d2|   a2+a3 -> rank 0    c
 *           rank 3 |a3|b3|c3|d3|   b2+b3 -> rank 1    d
 *
 * All-gather is the way back: from the owners to the carriers, from which the
 * other ranks of their node copy the elements.
 *
 *   host 0  rank 0 |a| | | |   c -> rank 0   |a| |c| |
 *           rank 1 | |b| | |   d -> rank 1   | |b| |d|   and take
 *   host 1  rank 2 | | |c| |   a -> rank 2   |a| |c| |   each other's
 *           rank 3 | | | |d|   b -> rank 3   | |b| |d|
 *
 * Sums are folded inside the node, then over nodes. This order depends on which
 * ranks share a node. Half types are added in f32 throughout and rounded once.
 * Bytes that leave a node in a reduce-scatter: the elements that ranks of other
 * nodes own, once. In an all-gather: the elements of its ranks, once to each
 * other node.
 */
#include <assert.h>

#include "base/error.h"
#include "comm/coll/move/move.h"
#include "comm/coll/nodes/pipeline.h"
#include "comm/coll/points.h"
#include "comm/core/paths.h"
#include "comm/net/internode.h"

/* SUMS_BYTES: sums of other nodes in memory, unless there are very many. */
enum { MOST_IN_FLIGHT = 32, BYTES_IN_FLIGHT = 4 << 20, SUMS_BYTES = 4 << 20 };
enum { MOST_WINDOW = 1 << 20, LEAST_WINDOW = 16 << 10 };

static bool reduces(const lsi_collective *op)
{
    return lsi_operation_reduces(op->call.operation);
}

static bool is_wider(const lsi_collective *op)
{
    return reduces(op) && lsi_wide_dtype(op) != op->call.dtype;
}

/* A rank that is alone on its node sends its data without sums. */
static bool adds_inside(const lsi_collective *op)
{
    return op->group->net->local->size > 1 || is_wider(op);
}

/* Bytes of elements that cross. */
static size_t crossing_bytes(const lsi_collective *op, size_t elements)
{
    return reduces(op) ? lsi_wide_bytes(op, elements) : elements * op->item;
}

/* ---- segments ------------------------------------------------------------ */

/* Segments of a reduction: all turns with a window, and some windows. */
static size_t turns_in_flight(const lsi_internode *net)
{
    const size_t nodes = (size_t)net->nodes;
    return nodes < LSI_SEGMENTS     ? LSI_SEGMENTS
           : nodes < MOST_IN_FLIGHT ? nodes
                                    : MOST_IN_FLIGHT;
}

/*
 * Windows that a reduction has memory for. The last turn with a window must be
 * over before a segment needs its memory again.
 */
static size_t slots_of(const lsi_internode *net)
{
    const size_t turns = (size_t)net->nodes - 1;
    assert(turns > 0); /* such a group spans nodes */
    return 1 + (turns_in_flight(net) - 1 + turns - 1) / turns;
}

/* Sums in the memory of a window: of this node if ranks must add them up. */
static size_t sums_of(const lsi_collective *op)
{
    const lsi_internode *net = op->group->net;
    const bool adds = net->rails > 1 || is_wider(op);
    return (size_t)net->nodes - (adds ? 0 : 1);
}

/* Bytes of the widest window. The same on all ranks. */
static size_t window_bytes(const lsi_collective *op)
{
    if (!reduces(op))
        return MOST_WINDOW;
    const size_t sums = slots_of(op->group->net) * sums_of(op);
    assert(sums > 0);
    const size_t bytes = SUMS_BYTES / sums;
    return bytes < LEAST_WINDOW  ? LEAST_WINDOW
           : bytes < MOST_WINDOW ? bytes
                                 : MOST_WINDOW;
}

static lsi_owners owners_of(const lsi_collective *op)
{
    const lsi_internode *net = op->group->net;
    const bool sharded =
        lsi_operation_of(op->call.operation)->receives == LSI_EXTENT_SHARD;
    const size_t count = op->call.count;
    const int ranks = op->group->size;
    return (lsi_owners){.cut = sharded ? op->cut : (lsi_cut){.shard = count},
                        .count = sharded ? count : count * (size_t)ranks,
                        .ranks = ranks,
                        .item = op->item,
                        .most = window_bytes(op) / crossing_bytes(op, 1),
                        .alike = net->rails * net->nodes == ranks};
}

static lsi_node_ranks ranks_on(const lsi_internode *net, int node)
{
    return (lsi_node_ranks){net->rank + net->first[node], net->ranks_on[node]};
}

/* Whether the window exists: empty, or with carriers. */
static bool next_turn(const lsi_collective *op, lsi_segment *s)
{
    const lsi_pipeline *p = lsi_pipeline_of(op);
    const lsi_internode *net = op->group->net;
    const lsi_owners all = owners_of(op);
    const lsi_node_ranks here = ranks_on(net, net->node);
    const int to = lsi_turn_to(net->nodes, net->node, p->turn);
    const int from = lsi_turn_from(net->nodes, net->node, p->turn);
    const lsi_node_ranks sent = ranks_on(net, to), got = ranks_on(net, from);
    const bool carries = lsi_shares_window(&all, reduces(op) ? sent : got, here,
                                           p->window, &s->carried);
    const bool returns = lsi_shares_window(&all, here, reduces(op) ? got : sent,
                                           p->window, &s->returned);
    const bool own = lsi_shares_window(&all, here, here, p->window, &s->own);
    return carries || returns || own;
}

static bool is_empty(const lsi_shares *s)
{
    return s->carriers.ranks == 0;
}

static bool next(const lsi_collective *op, lsi_segment *s)
{
    lsi_pipeline *p = lsi_pipeline_of(op);
    const int turns = op->group->net->nodes - 1;
    for (bool exists = p->turn > 0;; exists = false, p->window++, p->turn = 0) {
        for (; p->turn < turns; p->turn++) {
            exists = next_turn(op, s) || exists;
            if (is_empty(&s->carried) && is_empty(&s->own))
                continue;
            p->owned += p->turn == 0 && !is_empty(&s->own);
            s->slot = p->owned;
            s->turn = p->turn++;
            return true;
        }
        if (!exists)
            return false;
    }
}

/* ---- places -------------------------------------------------------------- */

static lsi_range own_block(const lsi_collective *op)
{
    return lsi_block_of(op, op->group->rank);
}

/* The part of a window that this rank carries. */
static lsi_range own_part(const lsi_collective *op, const lsi_shares *s)
{
    return lsi_shares_part(s, op->group->net->index_of[op->group->rank]);
}

/* Elements of a window, at most. */
static size_t window_elements(const lsi_collective *op)
{
    const lsi_owners all = owners_of(op);
    return lsi_shares_most(&all, op->group->net->rails);
}

/* In a reduction: bytes for this rank's part of a window from one node. */
static size_t part_bytes(const lsi_collective *op)
{
    const size_t block = lsi_range_size(own_block(op));
    const size_t window = window_elements(op);
    return lsi_lines(lsi_wide_bytes(op, block < window ? block : window));
}

/* Bytes for the sums that a segment sends. */
static size_t sums_bytes(const lsi_collective *op)
{
    const size_t ranks = (size_t)op->group->net->local->size;
    return lsi_lines(
        lsi_wide_bytes(op, (window_elements(op) + ranks - 1) / ranks));
}

/* Bytes for a window as f32, which the ranks of the node add up. */
static size_t widened_bytes(const lsi_collective *op)
{
    return is_wider(op) ? lsi_lines(lsi_wide_bytes(op, window_elements(op)))
                        : 0;
}

/* Segments in flight. */
static size_t in_flight(const lsi_collective *op)
{
    const size_t bytes = window_elements(op) * op->item;
    size_t most = turns_in_flight(op->group->net);
    if (!reduces(op) && bytes != 0 && BYTES_IN_FLIGHT / bytes < most)
        most = BYTES_IN_FLIGHT / bytes;
    return most < LSI_SEGMENTS ? LSI_SEGMENTS : most;
}

static void plan(const lsi_collective *op, lsi_pipeline_plan *plan)
{
    const lsi_internode *net = op->group->net;
    const lsi_owners all = owners_of(op);
    plan->segments = in_flight(op);
    plan->steps = 1;
    plan->transfers = 2 * (size_t)net->rails;
    plan->bytes = crossing_bytes(op, 2 * window_elements(op));
    plan->grants = all.count > all.most;
    if (!reduces(op))
        return;
    plan->memory =
        (adds_inside(op) ? sums_bytes(op) : 0) + 2 * widened_bytes(op);
    plan->common = slots_of(net) * sums_of(op) * part_bytes(op);
}

static unsigned char *sent_from(const lsi_collective *op, size_t element)
{
    return lsi_to_send(op->send) + element * op->item;
}

/* An element that this rank carries. */
static unsigned char *carried_at(const lsi_collective *op, const lsi_segment *s,
                                 size_t element)
{
    if (!reduces(op))
        return (unsigned char *)op->recv + element * op->item;
    if (!adds_inside(op))
        return sent_from(op, element);
    const size_t at = element - own_part(op, &s->carried).begin;
    return s->memory + lsi_wide_bytes(op, at);
}

/*
 * An element of this rank's part of a window; in a reduction, its sum on node
 * `node`. The sums of this node are the last ones.
 */
static unsigned char *own_at(const lsi_collective *op, const lsi_segment *s,
                             int node, size_t element)
{
    const lsi_internode *net = op->group->net;
    if (!reduces(op))
        return (unsigned char *)op->recv + element * op->item;
    if (!adds_inside(op) && node == net->node)
        return sent_from(op, element);
    const size_t at = element - own_part(op, &s->own).begin;
    const size_t turn =
        (size_t)(net->node + 2 * net->nodes - 1 - node) % (size_t)net->nodes;
    const size_t place = s->slot % slots_of(net) * sums_of(op) + turn;
    return lsi_pipeline_of(op)->common + place * part_bytes(op) +
           lsi_wide_bytes(op, at);
}

/* ---- inside the node ----------------------------------------------------- */

/* Converts the window to f32, share after share, and sets *cut to match. */
static size_t widen(const lsi_collective *op, const lsi_shares *s, lsi_cut *cut,
                    unsigned char *to)
{
    const size_t width = lsi_range_size(cut->window);
    lsi_cut tight = {.shard = width, .window = {0, width}};
    size_t total = 0;
    for (int i = 0; i < s->carriers.ranks; i++) {
        const lsi_range part = lsi_shares_part(s, i);
        if (lsi_range_size(part) == 0)
            continue;
        if (total == 0) /* a share may be cut off at its start */
            tight.first = (size_t)i * width + part.begin - s->elements.begin +
                          cut->first - (size_t)i * cut->shard -
                          cut->window.begin;
        lsi_widen(op, to + lsi_wide_bytes(op, total), sent_from(op, part.begin),
                  lsi_range_size(part));
        total += lsi_range_size(part);
    }
    *cut = tight;
    return total;
}

/* The sums of a window; `wide` is room to widen it. */
static ls_status add_window(const lsi_collective *op, lsi_collective *inner,
                            const lsi_shares *s, unsigned char *wide,
                            unsigned char *sums)
{
    lsi_cut cut = s->cut;
    size_t n = lsi_range_size(s->elements);
    const unsigned char *from = sent_from(op, s->elements.begin);
    if (s->carriers.ranks == 0 || !adds_inside(op))
        return LS_OK;
    if (is_wider(op)) {
        n = widen(op, s, &cut, wide);
        from = wide;
    }
    return lsi_node_reduce(op, inner, cut, from, n, sums);
}

static ls_status add_up(const lsi_collective *op, lsi_segment *s)
{
    unsigned char *wide = s->memory + sums_bytes(op);
    LS_TRY(add_window(op, &s->enter, &s->carried, wide, s->memory));
    if (s->turn > 0 || is_empty(&s->own))
        return LS_OK;
    const lsi_range own = own_part(op, &s->own);
    unsigned char *sums = lsi_range_size(own) == 0
                              ? NULL
                              : own_at(op, s, op->group->net->node, own.begin);
    wide += widened_bytes(op);
    return add_window(op, &s->beside, &s->own, wide, sums);
}

static ls_status gather(const lsi_collective *op, lsi_collective *inner,
                        const lsi_shares *s)
{
    unsigned char *data =
        (unsigned char *)op->recv + s->elements.begin * op->item;
    if (s->carriers.ranks == 0)
        return LS_OK;
    return lsi_node_gather(op, inner, s->cut, data, lsi_range_size(s->elements),
                           LSI_ROOT_ALL);
}

static ls_status gather_own(const lsi_collective *op, lsi_segment *s)
{
    return s->turn == 0 ? gather(op, &s->beside, &s->own) : LS_OK;
}

static ls_status gather_carried(const lsi_collective *op, lsi_segment *s)
{
    return gather(op, &s->leave, &s->carried);
}

/* ---- between nodes ------------------------------------------------------- */

static ls_status post(lsi_collective *op, lsi_segment *s)
{
    const lsi_shares *carried = &s->carried, *returned = &s->returned;
    for (int i = 0; i < returned->carriers.ranks; i++) {
        const int rank = returned->carriers.rank[i];
        const lsi_range part =
            lsi_range_common(lsi_shares_part(returned, i), own_block(op));
        LS_TRY(lsi_segment_move(
            op, s, rank, reduces(op),
            own_at(op, s, op->group->net->node_of[rank], part.begin),
            crossing_bytes(op, lsi_range_size(part))));
    }
    for (int r = carried->first; r < carried->first + carried->owners; r++) {
        const lsi_range part =
            lsi_range_common(own_part(op, carried), lsi_block_of(op, r));
        LS_TRY(lsi_segment_move(op, s, r, !reduces(op),
                                carried_at(op, s, part.begin),
                                crossing_bytes(op, lsi_range_size(part))));
    }
    return LS_OK;
}

/* After the last turn: folds the sums of all nodes, in the order of the nodes.
 */
static ls_status fold(const lsi_collective *op, lsi_segment *s)
{
    const lsi_internode *net = op->group->net;
    const void *srcs[LSI_MAX_RANKS];
    if (s->turn < net->nodes - 2 || is_empty(&s->own))
        return LS_OK;
    const lsi_range part = own_part(op, &s->own);
    const size_t n = lsi_range_size(part);
    if (n == 0)
        return LS_OK;
    unsigned char *to =
        (unsigned char *)op->recv + lsi_delivery_offset(op, part.begin);
    for (int k = 0; k < net->nodes; k++)
        srcs[k] = own_at(op, s, k, part.begin);
    void *sum = is_wider(op) ? own_at(op, s, net->node, part.begin) : to;
    lsi_fold(op, sum, srcs, net->nodes, n);
    lsi_narrow(op, to, sum, n);
    return LS_OK;
}

/* ---- the collectives ----------------------------------------------------- */

const lsi_stages lsi_reduce_scatter_stages = {
    .plan = plan, .next = next, .enter = add_up, .post = post, .leave = fold};

const lsi_stages lsi_all_gather_stages = {.plan = plan,
                                          .open = lsi_move_own,
                                          .next = next,
                                          .enter = gather_own,
                                          .post = post,
                                          .leave = gather_carried};

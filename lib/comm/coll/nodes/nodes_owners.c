/*
 * Reduce-scatter and all-gather of ranks on several nodes: stages of
 * pipeline.h. A segment is a window of the elements that the ranks of another
 * node own. Each rank of this node carries a share of it (schedule/shares.h).
 * The other nodes come in turns, the next one first. At the same time, a node
 * adds up, or gathers, the elements that its own ranks own.
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
#include "base/error.h"
#include "comm/coll/move/move.h"
#include "comm/coll/nodes/pipeline.h"
#include "comm/coll/points.h"
#include "comm/core/paths.h"
#include "comm/net/internode.h"

enum { MOST_IN_FLIGHT = 32, BYTES_IN_FLIGHT = 4 << 20 };

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

static lsi_owners owners_of(const lsi_collective *op)
{
    const size_t count = op->call.count;
    const int ranks = op->group->size;
    if (lsi_operation_of(op->call.operation)->receives == LSI_EXTENT_SHARD)
        return (lsi_owners){op->cut, count, ranks, op->item};
    return (lsi_owners){
        {.shard = count}, count * (size_t)ranks, ranks, op->item};
}

static lsi_node_ranks ranks_on(const lsi_internode *net, int node)
{
    return (lsi_node_ranks){net->rank + net->first[node], net->ranks_on[node]};
}

static bool next(const lsi_collective *op, lsi_segment *s)
{
    lsi_pipeline *p = lsi_pipeline_of(op);
    const lsi_internode *net = op->group->net;
    const lsi_owners all = owners_of(op);
    const lsi_node_ranks here = ranks_on(net, net->node);
    const bool own = lsi_shares_window(&all, here, here, p->begun, &s->own);
    for (; p->turn < net->nodes - 1; p->turn++, p->window = 0) {
        const int to = lsi_turn_to(net->nodes, net->node, p->turn);
        const int from = lsi_turn_from(net->nodes, net->node, p->turn);
        const lsi_node_ranks sent = ranks_on(net, to),
                             got = ranks_on(net, from);
        const bool carries = lsi_shares_window(&all, reduces(op) ? sent : got,
                                               here, p->window, &s->carried);
        const bool returns = lsi_shares_window(
            &all, here, reduces(op) ? got : sent, p->window, &s->returned);
        s->last_turn = p->turn == net->nodes - 2;
        if (carries || returns) {
            p->window++;
            return true;
        }
    }
    s->carried = s->returned = (lsi_shares){0};
    s->last_turn = true;
    return own;
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

/* In a reduction: bytes for this rank's block from one node. */
static size_t slot_bytes(const lsi_collective *op)
{
    return lsi_lines(lsi_wide_bytes(op, lsi_range_size(own_block(op))));
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

/* Segments in flight: if short, those of several turns at once. */
static size_t in_flight(const lsi_collective *op)
{
    const size_t bytes = window_elements(op) * op->item;
    const size_t turns = (size_t)op->group->net->nodes;
    size_t most = turns < MOST_IN_FLIGHT ? turns : MOST_IN_FLIGHT;
    if (bytes != 0 && BYTES_IN_FLIGHT / bytes < most)
        most = BYTES_IN_FLIGHT / bytes;
    return most < LSI_SEGMENTS ? LSI_SEGMENTS : most;
}

static void plan(const lsi_collective *op, lsi_pipeline_plan *plan)
{
    const lsi_internode *net = op->group->net;
    plan->segments = in_flight(op);
    plan->steps = 1;
    plan->transfers = 2 * (size_t)net->rails;
    plan->bytes = crossing_bytes(op, 2 * window_elements(op));
    if (!reduces(op))
        return;
    plan->memory = sums_bytes(op) + 2 * widened_bytes(op);
    plan->common = (size_t)net->nodes * slot_bytes(op);
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

/* An element of this rank's block; in a reduction, its sum on node `node`. */
static unsigned char *own_at(const lsi_collective *op, int node, size_t element)
{
    if (!reduces(op))
        return (unsigned char *)op->recv + element * op->item;
    if (!adds_inside(op) && node == op->group->net->node)
        return sent_from(op, element);
    const size_t at = element - own_block(op).begin;
    return lsi_pipeline_of(op)->common + (size_t)node * slot_bytes(op) +
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
    const lsi_range own = own_part(op, &s->own);
    unsigned char *wide = s->memory + sums_bytes(op);
    unsigned char *sums = lsi_range_size(own) == 0
                              ? NULL
                              : own_at(op, op->group->net->node, own.begin);
    LS_TRY(add_window(op, &s->enter, &s->carried, wide, s->memory));
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
    return gather(op, &s->beside, &s->own);
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
            own_at(op, op->group->net->node_of[rank], part.begin),
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

/* Folds the sums of all nodes, in the order of the nodes. */
static void fold_range(const lsi_collective *op, lsi_range range)
{
    const lsi_internode *net = op->group->net;
    unsigned char *to =
        (unsigned char *)op->recv + lsi_delivery_offset(op, range.begin);
    const void *srcs[LSI_MAX_RANKS];
    for (int k = 0; k < net->nodes; k++)
        srcs[k] = own_at(op, k, range.begin);
    void *sum = is_wider(op) ? own_at(op, net->node, range.begin) : to;
    lsi_fold(op, sum, srcs, net->nodes, lsi_range_size(range));
    lsi_narrow(op, to, sum, lsi_range_size(range));
}

/*
 * Folds up to where this node's sums and those of the last turn are complete.
 */
static ls_status fold(const lsi_collective *op, lsi_segment *s)
{
    lsi_pipeline *p = lsi_pipeline_of(op);
    const lsi_range block = own_block(op);
    const size_t here = lsi_shares_upto(&s->own, block);
    const size_t come = lsi_shares_upto(&s->returned, block);
    const size_t upto = here < come ? here : come;
    const size_t begin = p->folded < block.begin ? block.begin : p->folded;
    if (s->last_turn && upto > begin) {
        fold_range(op, (lsi_range){begin, upto});
        p->folded = upto;
    }
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

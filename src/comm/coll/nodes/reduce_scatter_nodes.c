/*
 * Reduce-scatter of ranks on several nodes, into blocks of one size or shards
 * of any. What the ranks of another node own
 *
 *   inside a node    is added up by the ranks of the node, each its share of it
 *   between nodes    goes from there to those who own it
 *
 * and every rank folds what has come for its block with what its own node has:
 *
 *   host 0  rank 0 |a0|b0|c0|d0|   c0+c1 -> rank 2    a = (a0+a1) + (a2+a3)
 *           rank 1 |a1|b1|c1|d1|   d0+d1 -> rank 3    b
 *   host 1  rank 2 |a2|b2|c2|d2|   a2+a3 -> rank 0    c
 *           rank 3 |a3|b3|c3|d3|   b2+b3 -> rank 1    d
 *
 * The nodes of the others come in turns, the next one first, and a node's part
 * goes in windows: while one is on its way, the next is added up.
 *
 * Sums are folded inside the node, then over nodes: an order of its own, which
 * depends on which ranks share a node. Half types are added in f32 throughout
 * and rounded once. Bytes that leave a node: what the ranks of others own,
 * once.
 */
#include "base/error.h"
#include "comm/coll/nest.h"
#include "comm/coll/nodes/nodes_shares.h"
#include "comm/coll/points.h"
#include "comm/net/internode.h"
#include "comm/schedule/shares.h"
#include "compute/serial.h"

enum { LEAST_ADDED = 16 * 1024 }; /* elements at once, if more are to come */

/* ---- memory -------------------------------------------------------------- */

static bool is_wider(const lsi_collective *op)
{
    return lsi_wide_dtype(op) != op->call.dtype;
}

/* A rank that is alone on its node sends what it has. */
static bool adds_inside(const lsi_collective *op)
{
    return op->group->net->local->size > 1 || is_wider(op);
}

/* Room for one's own block from one node. */
static size_t slot_bytes(const lsi_collective *op)
{
    return lsi_lines(
        lsi_wide_bytes(op, lsi_range_size(lsi_block_of(op, op->group->rank))));
}

static size_t sums_bytes(const lsi_collective *op, const lsi_stretch *s)
{
    return lsi_lines(lsi_wide_bytes(op, lsi_range_size(s->own)));
}

/* Room for one window of all ranks of the node, as f32. */
static size_t widened_bytes(const lsi_collective *op, const lsi_stretch *s)
{
    const size_t ranks = (size_t)op->group->net->local->size;
    return is_wider(op) ? lsi_lines(lsi_wide_bytes(op, ranks * s->width)) : 0;
}

static size_t all_slots_bytes(const lsi_collective *op)
{
    return (size_t)op->group->net->nodes * slot_bytes(op);
}

/* Behind the relay: slots, sums for others, widened windows. */
size_t lsi_reduce_scatter_nodes_scratch(const lsi_collective *op)
{
    const lsi_internode *net = op->group->net;
    size_t sums = 0, widened = 0;
    lsi_stretch s;
    if (net == NULL)
        return 0; /* cannot be used, which the ranks will find */
    for (int node = 0; node < net->nodes; node++)
        for (int i = 0; lsi_next_stretch(op, node, &i, &s);) {
            const size_t wide = widened_bytes(op, &s);
            widened = wide > widened ? wide : widened;
            if (node != net->node && adds_inside(op))
                sums += sums_bytes(op, &s);
        }
    return lsi_relay_bytes(op) + all_slots_bytes(op) + LSI_CHUNKS * widened +
           sums;
}

static unsigned char *behind_relay(const lsi_collective *op)
{
    return (unsigned char *)op->scratch + lsi_relay_bytes(op);
}

static unsigned char *slot(const lsi_collective *op, int node)
{
    return behind_relay(op) + (size_t)node * slot_bytes(op);
}

/* ---- what there is to do ------------------------------------------------- */

static unsigned char *sent_from(const lsi_collective *op, size_t element)
{
    union {
        const void *read;
        unsigned char *write;
    } send = {
        op->send}; /* bulk messages have one pointer for both directions */
    return send.write + element * op->item;
}

/* What is nobody's sum but one's own needs no adding up. */
static void place_sums(const lsi_collective *op, lsi_stretch *s,
                       unsigned char **room)
{
    if (!adds_inside(op)) {
        s->data = sent_from(op, s->own.begin);
        s->upto = s->own.end;
        s->offsets = (lsi_range){0, 0};
    } else if (s->node == op->group->net->node) {
        s->data = slot(op, s->node);
    } else {
        s->data = *room;
        *room += sums_bytes(op, s);
    }
}

static unsigned char *sum_at(const lsi_collective *op, const lsi_stretch *s,
                             size_t element)
{
    return s->data + lsi_wide_bytes(op, element - s->own.begin);
}

/* To the owners of what this rank carries. */
static void add_outs(lsi_collective *op, const lsi_stretch *s)
{
    for (int r = s->rank; r < s->rank + s->ranks; r++) {
        const lsi_range part = lsi_range_common(s->own, lsi_block_of(op, r));
        lsi_add_trip(op, r, false, part, sum_at(op, s, part.begin),
                     lsi_wide_bytes(op, 1));
    }
}

/* From those who carry what this rank owns. */
static void add_ins(lsi_collective *op, int node)
{
    const lsi_internode *net = op->group->net;
    const size_t begin = lsi_relay_of(op)->block.begin;
    for (int i = 0; i < net->ranks_on[node]; i++) {
        const int rank = net->rank[net->first[node] + i];
        const lsi_range part = lsi_own_carried(op, rank);
        if (lsi_range_size(part) != 0)
            lsi_add_trip(op, rank, true, part,
                         slot(op, node) +
                             lsi_wide_bytes(op, part.begin - begin),
                         lsi_wide_bytes(op, 1));
    }
}

static void add_stretch(lsi_collective *op, lsi_stretch *s,
                        unsigned char **room)
{
    lsi_relay *relay = lsi_relay_of(op);
    const size_t wide = widened_bytes(op, s);
    if (wide > relay->widened_bytes)
        relay->widened_bytes = wide;
    place_sums(op, s, room);
    if (s->node != op->group->net->node)
        add_outs(op, s);
    else if (op->group->rank >= s->rank && op->group->rank < s->rank + s->ranks)
        relay->own = relay->stretches;
    relay->stretches++;
}

/* The node's own part comes last: nobody else waits for it. */
static void open_relay(lsi_collective *op)
{
    const lsi_internode *net = op->group->net;
    lsi_relay *relay = lsi_relay_of(op);
    unsigned char *room = slot(op, net->nodes);
    lsi_relay_clear(op);
    for (int turn = 0; turn < net->nodes; turn++) {
        const int to = lsi_turn_to(net->nodes, net->node, turn);
        const int from = lsi_turn_from(net->nodes, net->node, turn);
        if (from != net->node)
            add_ins(op, from);
        lsi_stretch *s = &lsi_stretches(op)[relay->stretches];
        for (int i = 0; lsi_next_stretch(op, to, &i, s); s++)
            add_stretch(op, s, &room);
    }
    relay->widened = room;
}

/* ---- inside the node ----------------------------------------------------- */

/*
 * Puts the window together as f32, share behind share, and has it cut like
 * that.
 */
static size_t widen(const lsi_collective *op, const lsi_stretch *s,
                    lsi_cut *cut, unsigned char *to)
{
    const size_t n = lsi_range_size(s->elements);
    const size_t width = lsi_range_size(cut->window);
    const int ranks = op->group->net->local->size;
    lsi_cut tight = {.shard = width, .window = {0, width}};
    size_t total = 0;
    for (int i = 0; i < ranks; i++) {
        const lsi_range part = lsi_cut_part(cut, n, ranks, i);
        const size_t at = part.begin + cut->first - (size_t)i * cut->shard;
        if (lsi_range_size(part) == 0)
            continue;
        if (total == 0)
            tight.first = (size_t)i * width + at - cut->window.begin;
        lsi_widen(op, to + lsi_wide_bytes(op, total),
                  sent_from(op, s->elements.begin + part.begin),
                  lsi_range_size(part));
        total += lsi_range_size(part);
    }
    *cut = tight;
    return total;
}

static ls_status begin_sum(const lsi_collective *op, lsi_collective *inside,
                           const lsi_stretch *s, lsi_cut cut)
{
    const lsi_relay *relay = lsi_relay_of(op);
    const lsi_range own = lsi_own_window(op, s, &cut);
    const size_t index = (size_t)(inside - relay->inside);
    lsi_call call = {.operation = LSI_OP_REDUCE_SHARDS,
                     .dtype = lsi_wide_dtype(op),
                     .redop =
                         op->call.redop == LS_AVG ? LS_SUM : op->call.redop,
                     .count = lsi_range_size(s->elements)};
    const unsigned char *from = sent_from(op, s->elements.begin);
    if (is_wider(op)) {
        unsigned char *wide = relay->widened + index * relay->widened_bytes;
        call.count = widen(op, s, &cut, wide);
        from = wide;
    }
    lsi_collective_nest(inside, op->group->net->local, &call, from,
                        sum_at(op, s, own.begin));
    inside->cut = cut;
    return lsi_collective_submit(inside);
}

/* ---- between nodes ------------------------------------------------------- */

/* Pieces of sums may go as far as those have been added up. */
static void release_sums(const lsi_collective *op)
{
    const lsi_relay *relay = lsi_relay_of(op);
    for (size_t i = relay->outs_done; i < relay->outs; i++) {
        lsi_trip *trip = &lsi_outs(op)[i];
        const size_t upto = lsi_stretches(op)[trip->stretch].upto;
        const lsi_range there =
            lsi_range_common(trip->elements, (lsi_range){0, upto});
        const size_t bytes = lsi_wide_bytes(op, lsi_range_size(there));
        const size_t all = lsi_bulk_fragments(trip->bulk.bytes);
        trip->bulk.held =
            bytes == trip->bulk.bytes ? 0 : all - bytes / LSI_WIRE_PIECE;
    }
}

/* Folds what has come from all nodes, in the order of the nodes. */
static void add_up(const lsi_collective *op, lsi_range range)
{
    const lsi_relay *relay = lsi_relay_of(op);
    const lsi_internode *net = op->group->net;
    const size_t n = lsi_range_size(range);
    const size_t at = lsi_wide_bytes(op, range.begin - relay->block.begin);
    unsigned char *to =
        (unsigned char *)op->recv + lsi_delivery_offset(op, range.begin);
    void *sum = is_wider(op) ? slot(op, net->node) + at : to;
    const void *srcs[LSI_MAX_RANKS];
    for (int k = 0; k < net->nodes; k++)
        srcs[k] = slot(op, k) + at;
    srcs[net->node] = sum_at(op, &lsi_stretches(op)[relay->own], range.begin);
    lsi_serial_reduce(sum, srcs, net->nodes, n, lsi_wide_dtype(op),
                      op->call.redop == LS_AVG ? LS_SUM : op->call.redop, 1.0);
    lsi_narrow(op, to, sum, n);
}

static void add_arrived(const lsi_collective *op)
{
    lsi_relay *relay = lsi_relay_of(op);
    const lsi_range left = {relay->added, relay->block.end};
    if (lsi_range_size(left) == 0)
        return;
    const size_t here = lsi_stretches(op)[relay->own].upto;
    const size_t come = lsi_arrived_upto(op, left);
    const size_t upto = here < come ? here : come;
    if (upto == left.end || upto >= left.begin + LEAST_ADDED) {
        add_up(op, (lsi_range){left.begin, upto});
        relay->added = upto;
    }
}

/* ---- moving on ----------------------------------------------------------- */

static ls_status move_on(lsi_collective *op)
{
    const lsi_relay *relay = lsi_relay_of(op);
    if (op->step == 0)
        open_relay(op);
    op->step = 1;
    LS_TRY(lsi_windows_done(op));
    LS_TRY(lsi_begin_windows(op, begin_sum));
    release_sums(op);
    const ls_status outs = lsi_move_outs(op), ins = lsi_move_ins(op);
    if (outs != LS_OK && outs != LS_IN_PROGRESS)
        return outs;
    if (ins != LS_OK && ins != LS_IN_PROGRESS)
        return ins;
    add_arrived(op);
    const bool summed = relay->done.passed == relay->begun.passed;
    const bool over = outs == LS_OK && ins == LS_OK && summed &&
                      relay->added == relay->block.end;
    return over ? LS_OK : LS_IN_PROGRESS;
}

ls_status lsi_reduce_scatter_nodes(lsi_collective *op)
{
    return lsi_internode_advance(op, move_on);
}

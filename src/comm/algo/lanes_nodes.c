/*
 * All-reduce, reduce and broadcast of ranks on several nodes. The vector goes
 * in chunks; of each chunk
 *
 *   inside a node    the ranks add up what they have, each the lanes it carries
 *   between nodes    the carriers of a lane exchange and add up their sums, by
 *                    the steps of schedule/nodes.h
 *   inside a node    the ranks take each other's lanes
 *
 * so that every rank of a node feeds the network, and what must cross it does
 * so once. In a reduce the sums move to the root's node only, and there to the
 * root. In a broadcast nothing is added up: the ranks of the root's node take
 * the chunk from it and carry it to the other nodes.
 *
 * Several chunks are on the way at once: while one is exchanged, the next is
 * added up and the one before is passed on. All ranks of a node begin the parts
 * inside it in one order: sums of the first chunks; then, for each chunk that
 * has been exchanged, its passing on and the sum of the next.
 *
 * Sums are folded inside the node, then over nodes: an order of its own, which
 * depends on which ranks share a node. Half types are added in f32 throughout
 * and rounded once. Bytes that leave a node in an all-reduce: 2 S (K-1)/K for K
 * nodes up to 8 or a power of two. In all cross 2 (K-1) S, (K-1) S of a
 * broadcast, and of a reduce, with K up to 8, (K-1) S (K+1)/K.
 */
#include <limits.h>
#include <string.h>

#include "base/error.h"
#include "comm/algo/nodes_chunk.h"
#include "comm/algo/points.h"
#include "comm/collective.h"
#include "comm/far.h"
#include "comm/schedule/nodes.h"
#include "kernels/kernels.h"

/* ---- kinds --------------------------------------------------------------- */

static bool on_root_node(const lsi_op *op)
{
    const lsi_far *far = op->group->far;
    return far->node_of[op->call.root] == far->node;
}

/* A step in which sums move, or one in which results do. */
static bool moves_sums(const lsi_op *op, int step)
{
    return lsi_operation_reduces(op->call.operation) &&
           step < lsi_nodes_first_gather(op->group->far->nodes);
}

static void find_leap(const lsi_op *op, int step, lsi_leap *leap)
{
    const lsi_far *far = op->group->far;
    const lsi_rooted shape = {far->nodes, far->node_of[op->call.root]};
    const lsi_root root = lsi_operation_of(op->call.operation)->root;
    if (root == LSI_ROOT_RECEIVER)
        lsi_nodes_reduce_step(shape, far->node, step, leap);
    else if (root == LSI_ROOT_SENDER)
        lsi_nodes_broadcast_step(shape, far->node, step, leap);
    else
        lsi_nodes_step(far->nodes, far->node, step, leap);
}

/* ---- inside the node ----------------------------------------------------- */

static void cut_by_lanes(const lsi_op *op, const lsi_chunk *c, lsi_op *part)
{
    part->cut =
        (lsi_cut){.shard = lsi_lane_elements(op, lsi_range_size(c->range)),
                  .lanes = (size_t)op->group->far->lanes};
}

static ls_status begin_sum(const lsi_op *op, lsi_chunk *c)
{
    const lsi_call call = {.operation = LSI_OP_REDUCE_SHARDS,
                           .dtype = lsi_wide_dtype(op),
                           .redop = op->call.redop == LS_AVG ? LS_SUM
                                                             : op->call.redop,
                           .count = lsi_range_size(c->range)};
    const unsigned char *from =
        (const unsigned char *)op->send + c->range.begin * op->item;
    if (lsi_sums_scratch(op) != 0) {
        lsi_widen(op, lsi_chunk_sums(op, c), from, call.count);
        from = lsi_chunk_sums(op, c);
    }
    lsi_op_nest(&c->sum, op->group->far->local, &call, from,
                lsi_chunk_sums(op, c));
    cut_by_lanes(op, c, &c->sum);
    return lsi_op_submit(&c->sum);
}

static ls_status begin_copies(const lsi_op *op, lsi_chunk *c)
{
    const lsi_call call = {.operation = LSI_OP_BROADCAST,
                           .dtype = op->call.dtype,
                           .count = lsi_range_size(c->range),
                           .root = op->group->far->index_of[op->call.root]};
    unsigned char *data = lsi_chunk_result(op, c);
    lsi_op_nest(&c->sum, op->group->far->local, &call, data, data);
    return lsi_op_submit(&c->sum);
}

/* What the node has before anything has crossed. */
static ls_status begin_inside(const lsi_op *op, lsi_chunk *c)
{
    c->stage = LSI_CHUNK_SUMMED;
    c->step = 0;
    c->posted = false;
    if (lsi_operation_reduces(op->call.operation))
        return begin_sum(op, c);
    if (on_root_node(op))
        return begin_copies(op, c);
    c->sum = (lsi_op){.done = true};
    return LS_OK;
}

/* Whether somebody on this node still misses what other ranks of it have. */
static bool is_spread(const lsi_op *op)
{
    const lsi_root root = lsi_operation_of(op->call.operation)->root;
    return root == LSI_ROOT_NOBODY ||
           (root == LSI_ROOT_RECEIVER) == on_root_node(op);
}

static ls_status begin_spread(const lsi_op *op, lsi_chunk *c)
{
    const lsi_root root = lsi_operation_of(op->call.operation)->root;
    const lsi_call call = {.operation = LSI_OP_GATHER_SHARDS,
                           .dtype = op->call.dtype,
                           .count = lsi_range_size(c->range),
                           .root = root == LSI_ROOT_RECEIVER
                                       ? op->group->far->index_of[op->call.root]
                                       : LSI_ROOT_ALL};
    unsigned char *data = lsi_chunk_result(op, c);
    c->stage = LSI_CHUNK_SPREAD;
    if (!is_spread(op)) {
        c->spread = (lsi_op){.done = true};
        return LS_OK;
    }
    lsi_op_nest(&c->spread, op->group->far->local, &call, data, data);
    cut_by_lanes(op, c, &c->spread);
    return lsi_op_submit(&c->spread);
}

/* ---- between nodes ------------------------------------------------------- */

static lsi_buffer bytes_of(const lsi_op *op, const lsi_chunk *c,
                           lsi_range elements, int step)
{
    if (moves_sums(op, step))
        return (lsi_buffer){
            lsi_chunk_sums(op, c) + lsi_wide_bytes(op, elements.begin),
            lsi_wide_bytes(op, lsi_range_size(elements)), LS_U8};
    return (lsi_buffer){lsi_chunk_result(op, c) + elements.begin * op->item,
                        lsi_range_size(elements) * op->item, LS_U8};
}

static int carrier(const lsi_far *far, int node, size_t lane)
{
    return far
        ->rank[far->first[node] +
               lsi_lane_carrier(far->lanes, far->ranks_on[node], (int)lane)];
}

/* A parcel with room for all its pieces, so that all are posted at once. */
static ls_status post(lsi_op *op, const lsi_chunk *c, size_t lane,
                      const lsi_parcel *wanted)
{
    const size_t pieces = lsi_parcel_pieces(lsi_leg_bytes(op));
    lsi_parcel *first = lsi_lane_parcels(op, c, lane), *parcel = first;
    lsi_flight *flights = lsi_lane_flights(op, c, lane);
    while (parcel->bytes != 0)
        parcel++;
    *parcel = *wanted;
    parcel->flights = flights + (size_t)(parcel - first) * pieces;
    parcel->room = pieces;
    parcel->tag = LSI_TAG_STEP + c->step;
    const ls_status status = lsi_parcel_move(op->group, parcel);
    return status == LS_IN_PROGRESS ? LS_OK : status;
}

static ls_status post_lane(lsi_op *op, const lsi_chunk *c, size_t lane)
{
    lsi_leap leap;
    ls_group *group = op->group;
    const lsi_far *far = group->far;
    unsigned char *incoming = lsi_lane_incoming(op, c, lane);
    memset(lsi_lane_parcels(op, c, lane), 0,
           2 * lsi_lane_legs(op) * sizeof(lsi_parcel));
    find_leap(op, c->step, &leap);
    for (int i = 0; i < leap.ins; i++) {
        const lsi_leg *in = &leap.in[i];
        const lsi_buffer to =
            bytes_of(op, c, lsi_lane_range(op, c, lane, in->parts), c->step);
        const lsi_parcel parcel = {
            .data = leap.adds ? incoming + (size_t)i * to.count : to.data,
            .bytes = to.count,
            .rank = carrier(far, in->node, lane),
            .receives = true};
        if (to.count != 0)
            LS_TRY(post(op, c, lane, &parcel));
    }
    for (int i = 0; i < leap.outs; i++) {
        const lsi_leg *out = &leap.out[i];
        const lsi_buffer from =
            bytes_of(op, c, lsi_lane_range(op, c, lane, out->parts), c->step);
        const lsi_parcel parcel = {.data = from.data,
                                   .bytes = from.count,
                                   .rank = carrier(far, out->node, lane)};
        group->counters->bytes_sent += from.count;
        if (from.count != 0)
            LS_TRY(post(op, c, lane, &parcel));
    }
    return LS_OK;
}

static ls_status post_step(lsi_op *op, lsi_chunk *c)
{
    const lsi_range lanes = lsi_own_lanes(op->group);
    for (size_t lane = lanes.begin; lane < lanes.end; lane++)
        LS_TRY(post_lane(op, c, lane));
    return LS_OK;
}

static ls_status step_done(const lsi_op *op, const lsi_chunk *c)
{
    const lsi_range lanes = lsi_own_lanes(op->group);
    for (size_t lane = lanes.begin; lane < lanes.end; lane++) {
        lsi_parcel *parcels = lsi_lane_parcels(op, c, lane);
        for (size_t i = 0; i < 2 * lsi_lane_legs(op); i++) {
            const ls_status status = lsi_parcel_move(op->group, &parcels[i]);
            if (status != LS_OK)
                return status;
        }
    }
    return LS_OK;
}

/* Folds what has come in with one's own, in the order of the nodes. */
static void add_lane(const lsi_op *op, const lsi_chunk *c, size_t lane)
{
    lsi_leap leap;
    const void *srcs[LSI_FEW_NODES + 1];
    const lsi_far *far = op->group->far;
    int n = 0;
    find_leap(op, c->step, &leap);
    if (leap.ins == 0)
        return;
    const lsi_range range = lsi_lane_range(op, c, lane, leap.in[0].parts);
    const lsi_buffer own = bytes_of(op, c, range, c->step);
    for (int i = 0; i < leap.ins; i++) {
        if (n == i && leap.in[i].node > far->node)
            srcs[n++] = own.data;
        srcs[n++] = lsi_lane_incoming(op, c, lane) + (size_t)i * own.count;
    }
    if (n == leap.ins)
        srcs[n++] = own.data;
    lsi_kernels_get()->reduce(
        own.data, srcs, n, lsi_range_size(range), lsi_wide_dtype(op),
        op->call.redop == LS_AVG ? LS_SUM : op->call.redop, 1.0);
}

/* The part that is complete here becomes a result. */
static void finish_lane(const lsi_op *op, const lsi_chunk *c, size_t lane)
{
    const lsi_far *far = op->group->far;
    const size_t part = (size_t)far->node;
    if (far->node >= lsi_nodes_parts(far->nodes))
        return; /* a node that has given all away */
    const lsi_range range =
        lsi_lane_range(op, c, lane, (lsi_range){part, part + 1});
    lsi_narrow(op, lsi_chunk_result(op, c) + range.begin * op->item,
               lsi_chunk_sums(op, c) + lsi_wide_bytes(op, range.begin),
               lsi_range_size(range));
}

static void finish_step(const lsi_op *op, const lsi_chunk *c)
{
    const lsi_range lanes = lsi_own_lanes(op->group);
    for (size_t lane = lanes.begin; lane < lanes.end; lane++) {
        if (moves_sums(op, c->step))
            add_lane(op, c, lane);
        if (moves_sums(op, c->step) && !moves_sums(op, c->step + 1))
            finish_lane(op, c, lane);
    }
}

/* ---- moving on ----------------------------------------------------------- */

static lsi_chunk *chunk_at(const lsi_op *op, size_t index)
{
    return &lsi_travel_of(op)->chunk[index % LSI_CHUNKS];
}

static ls_status begin_next(const lsi_op *op)
{
    lsi_travel *t = lsi_travel_of(op);
    lsi_chunk *c = chunk_at(op, t->begun);
    const size_t whole = lsi_chunk_elements(op), begin = t->begun * whole;
    const size_t left = op->call.count - begin;
    c->range = (lsi_range){begin, begin + (left < whole ? left : whole)};
    t->begun++;
    return begin_inside(op, c);
}

/*
 * The steps of an exchange, as far as messages have come. Those of one step
 * have one tag and are told apart by their order, so a chunk posts none before
 * the chunk ahead of it has: it may come to step `limit`.
 */
static ls_status exchange(lsi_op *op, lsi_chunk *c, int limit)
{
    const int steps = lsi_nodes_steps(op->group->far->nodes);
    for (;;) {
        if (c->posted) {
            const ls_status status = step_done(op, c);
            if (status != LS_OK)
                return status;
            finish_step(op, c);
            c->posted = false;
            c->step++;
        }
        if (c->step == steps) {
            c->stage = LSI_CHUNK_WAITS;
            return LS_OK;
        }
        if (c->step > limit)
            return LS_IN_PROGRESS;
        c->posted = true;
        LS_TRY(post_step(op, c));
    }
}

/* The last step of which a chunk has posted the messages. */
static int furthest(const lsi_chunk *c)
{
    if (c->stage == LSI_CHUNK_WAITS || c->stage == LSI_CHUNK_SPREAD)
        return INT_MAX;
    return c->stage == LSI_CHUNK_SUMMED || !c->posted ? c->step - 1 : c->step;
}

static ls_status exchange_all(lsi_op *op)
{
    const lsi_travel *t = lsi_travel_of(op);
    int limit = INT_MAX;
    for (size_t i = t->passed; i < t->begun; i++) {
        lsi_chunk *c = chunk_at(op, i);
        if (c->stage == LSI_CHUNK_SUMMED && c->sum.done) {
            LS_TRY(c->sum.status);
            c->stage = LSI_CHUNK_EXCHANGED;
        }
        if (c->stage == LSI_CHUNK_EXCHANGED) {
            const ls_status status = exchange(op, c, limit);
            if (status != LS_OK && status != LS_IN_PROGRESS)
                return status;
        }
        limit = furthest(c);
    }
    return LS_OK;
}

/* Whether the chunk that had its place before has been passed on. */
static bool may_pass(const lsi_chunk *c)
{
    return c->stage == LSI_CHUNK_WAITS &&
           (c->spread.group == NULL || c->spread.done);
}

/* In one order on all ranks of the node. */
static ls_status pass_on(const lsi_op *op)
{
    lsi_travel *t = lsi_travel_of(op);
    while (t->passed < t->begun && may_pass(chunk_at(op, t->passed))) {
        LS_TRY(begin_spread(op, chunk_at(op, t->passed)));
        t->passed++;
        if (t->begun < t->chunks)
            LS_TRY(begin_next(op));
    }
    return LS_OK;
}

static ls_status begin_all(lsi_op *op)
{
    lsi_travel *t = lsi_travel_of(op);
    const size_t whole = lsi_chunk_elements(op);
    *t = (lsi_travel){0};
    if (op->call.count != 0)
        t->chunks = (op->call.count + whole - 1) / whole;
    op->step = 1;
    while (t->begun < t->chunks && t->begun < LSI_CHUNKS)
        LS_TRY(begin_next(op));
    return LS_OK;
}

static ls_status move_on(lsi_op *op)
{
    const lsi_travel *t = lsi_travel_of(op);
    if (op->step == 0)
        LS_TRY(begin_all(op));
    LS_TRY(exchange_all(op));
    LS_TRY(pass_on(op));
    /* What ranks of a node do together is done in its order. */
    if (t->passed < t->chunks ||
        (t->chunks != 0 && !chunk_at(op, t->chunks - 1)->spread.done))
        return LS_IN_PROGRESS;
    return LS_OK;
}

ls_status lsi_lanes_nodes(lsi_op *op)
{
    return lsi_far_advance(op, move_on);
}

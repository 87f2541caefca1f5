/*
 * All-reduce, reduce and broadcast of ranks on several nodes. The vector goes
 * in chunks; of each chunk
 *
 *   inside a node    the ranks add up what they have, each the rails it carries
 *   between nodes    the carriers of a rail exchange and add up their sums, by
 *                    the steps of schedule/nodes.h
 *   inside a node    the ranks take each other's rails
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
#include "comm/coll/nest.h"
#include "comm/coll/nodes/nodes_chunk.h"
#include "comm/coll/points.h"
#include "comm/net/internode.h"
#include "comm/schedule/nodes.h"
#include "compute/serial.h"

/* ---- kinds --------------------------------------------------------------- */

static bool on_root_node(const lsi_collective *op)
{
    const lsi_internode *net = op->group->net;
    return net->node_of[op->call.root] == net->node;
}

/* A step in which sums move, or one in which results do. */
static bool moves_sums(const lsi_collective *op, int step)
{
    return lsi_operation_reduces(op->call.operation) &&
           step < lsi_nodes_first_gather(op->group->net->nodes);
}

static void find_leap(const lsi_collective *op, int step, lsi_leap *leap)
{
    const lsi_internode *net = op->group->net;
    const lsi_rooted shape = {net->nodes, net->node_of[op->call.root]};
    const lsi_root root = lsi_operation_of(op->call.operation)->root;
    if (root == LSI_ROOT_RECEIVER)
        lsi_nodes_reduce_step(shape, net->node, step, leap);
    else if (root == LSI_ROOT_SENDER)
        lsi_nodes_broadcast_step(shape, net->node, step, leap);
    else
        lsi_nodes_step(net->nodes, net->node, step, leap);
}

/* ---- inside the node ----------------------------------------------------- */

static void cut_by_lanes(const lsi_collective *op, const lsi_chunk *c,
                         lsi_collective *part)
{
    part->cut =
        (lsi_cut){.shard = lsi_rail_elements(op, lsi_range_size(c->range)),
                  .rails = (size_t)op->group->net->rails};
}

static ls_status begin_sum(const lsi_collective *op, lsi_chunk *c)
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
    lsi_collective_nest(&c->sum, op->group->net->local, &call, from,
                        lsi_chunk_sums(op, c));
    cut_by_lanes(op, c, &c->sum);
    return lsi_collective_submit(&c->sum);
}

static ls_status begin_copies(const lsi_collective *op, lsi_chunk *c)
{
    const lsi_call call = {.operation = LSI_OP_BROADCAST,
                           .dtype = op->call.dtype,
                           .count = lsi_range_size(c->range),
                           .root = op->group->net->index_of[op->call.root]};
    unsigned char *data = lsi_chunk_result(op, c);
    lsi_collective_nest(&c->sum, op->group->net->local, &call, data, data);
    return lsi_collective_submit(&c->sum);
}

/* What the node has before anything has crossed. */
static ls_status begin_inside(const lsi_collective *op, lsi_chunk *c)
{
    c->stage = LSI_CHUNK_SUMMED;
    c->step = 0;
    c->posted = false;
    if (lsi_operation_reduces(op->call.operation))
        return begin_sum(op, c);
    if (on_root_node(op))
        return begin_copies(op, c);
    c->sum = (lsi_collective){.done = true};
    return LS_OK;
}

/* Whether somebody on this node still misses what other ranks of it have. */
static bool is_spread(const lsi_collective *op)
{
    const lsi_root root = lsi_operation_of(op->call.operation)->root;
    return root == LSI_ROOT_NOBODY ||
           (root == LSI_ROOT_RECEIVER) == on_root_node(op);
}

static ls_status begin_spread(const lsi_collective *op, lsi_chunk *c)
{
    const lsi_root root = lsi_operation_of(op->call.operation)->root;
    const lsi_call call = {.operation = LSI_OP_GATHER_SHARDS,
                           .dtype = op->call.dtype,
                           .count = lsi_range_size(c->range),
                           .root = root == LSI_ROOT_RECEIVER
                                       ? op->group->net->index_of[op->call.root]
                                       : LSI_ROOT_ALL};
    unsigned char *data = lsi_chunk_result(op, c);
    c->stage = LSI_CHUNK_SPREAD;
    if (!is_spread(op)) {
        c->spread = (lsi_collective){.done = true};
        return LS_OK;
    }
    lsi_collective_nest(&c->spread, op->group->net->local, &call, data, data);
    cut_by_lanes(op, c, &c->spread);
    return lsi_collective_submit(&c->spread);
}

/* ---- between nodes ------------------------------------------------------- */

static lsi_buffer bytes_of(const lsi_collective *op, const lsi_chunk *c,
                           lsi_range elements, int step)
{
    if (moves_sums(op, step))
        return (lsi_buffer){
            lsi_chunk_sums(op, c) + lsi_wide_bytes(op, elements.begin),
            lsi_wide_bytes(op, lsi_range_size(elements)), LS_U8};
    return (lsi_buffer){lsi_chunk_result(op, c) + elements.begin * op->item,
                        lsi_range_size(elements) * op->item, LS_U8};
}

static int carrier(const lsi_internode *net, int node, size_t rail)
{
    return net
        ->rank[net->first[node] +
               lsi_rail_carrier(net->rails, net->ranks_on[node], (int)rail)];
}

/* A bulk message with room for all its pieces, so that all are posted at once.
 */
static ls_status post(lsi_collective *op, const lsi_chunk *c, size_t rail,
                      const lsi_bulk *wanted)
{
    const size_t pieces = lsi_bulk_fragments(lsi_leg_bytes(op));
    lsi_bulk *first = lsi_rail_bulks(op, c, rail), *bulk = first;
    lsi_wire_request *requests = lsi_rail_requests(op, c, rail);
    while (bulk->bytes != 0)
        bulk++;
    *bulk = *wanted;
    bulk->requests = requests + (size_t)(bulk - first) * pieces;
    bulk->room = pieces;
    bulk->tag = LSI_TAG_STEP + c->step;
    const ls_status status = lsi_bulk_move(op->group, bulk);
    return status == LS_IN_PROGRESS ? LS_OK : status;
}

static ls_status post_lane(lsi_collective *op, const lsi_chunk *c, size_t rail)
{
    lsi_leap leap;
    ls_group *group = op->group;
    const lsi_internode *net = group->net;
    unsigned char *incoming = lsi_rail_incoming(op, c, rail);
    memset(lsi_rail_bulks(op, c, rail), 0,
           2 * lsi_rail_legs(op) * sizeof(lsi_bulk));
    find_leap(op, c->step, &leap);
    for (int i = 0; i < leap.ins; i++) {
        const lsi_leg *in = &leap.in[i];
        const lsi_buffer to =
            bytes_of(op, c, lsi_rail_range(op, c, rail, in->parts), c->step);
        const lsi_bulk bulk = {
            .data = leap.adds ? incoming + (size_t)i * to.count : to.data,
            .bytes = to.count,
            .rank = carrier(net, in->node, rail),
            .receives = true};
        if (to.count != 0)
            LS_TRY(post(op, c, rail, &bulk));
    }
    for (int i = 0; i < leap.outs; i++) {
        const lsi_leg *out = &leap.out[i];
        const lsi_buffer from =
            bytes_of(op, c, lsi_rail_range(op, c, rail, out->parts), c->step);
        const lsi_bulk bulk = {.data = from.data,
                               .bytes = from.count,
                               .rank = carrier(net, out->node, rail)};
        group->counters->bytes_sent += from.count;
        if (from.count != 0)
            LS_TRY(post(op, c, rail, &bulk));
    }
    return LS_OK;
}

static ls_status post_step(lsi_collective *op, lsi_chunk *c)
{
    const lsi_range rails = lsi_own_rails(op->group);
    for (size_t rail = rails.begin; rail < rails.end; rail++)
        LS_TRY(post_lane(op, c, rail));
    return LS_OK;
}

static ls_status step_done(const lsi_collective *op, const lsi_chunk *c)
{
    const lsi_range rails = lsi_own_rails(op->group);
    for (size_t rail = rails.begin; rail < rails.end; rail++) {
        lsi_bulk *bulks = lsi_rail_bulks(op, c, rail);
        for (size_t i = 0; i < 2 * lsi_rail_legs(op); i++) {
            const ls_status status = lsi_bulk_move(op->group, &bulks[i]);
            if (status != LS_OK)
                return status;
        }
    }
    return LS_OK;
}

/* Folds what has come in with one's own, in the order of the nodes. */
static void add_lane(const lsi_collective *op, const lsi_chunk *c, size_t rail)
{
    lsi_leap leap;
    const void *srcs[LSI_FEW_NODES + 1];
    const lsi_internode *net = op->group->net;
    int n = 0;
    find_leap(op, c->step, &leap);
    if (leap.ins == 0)
        return;
    const lsi_range range = lsi_rail_range(op, c, rail, leap.in[0].parts);
    const lsi_buffer own = bytes_of(op, c, range, c->step);
    for (int i = 0; i < leap.ins; i++) {
        if (n == i && leap.in[i].node > net->node)
            srcs[n++] = own.data;
        srcs[n++] = lsi_rail_incoming(op, c, rail) + (size_t)i * own.count;
    }
    if (n == leap.ins)
        srcs[n++] = own.data;
    lsi_serial_reduce(own.data, srcs, n, lsi_range_size(range),
                      lsi_wide_dtype(op),
                      op->call.redop == LS_AVG ? LS_SUM : op->call.redop, 1.0);
}

/* The part that is complete here becomes a result. */
static void finish_lane(const lsi_collective *op, const lsi_chunk *c,
                        size_t rail)
{
    const lsi_internode *net = op->group->net;
    const size_t part = (size_t)net->node;
    if (net->node >= lsi_nodes_parts(net->nodes))
        return; /* a node that has given all away */
    const lsi_range range =
        lsi_rail_range(op, c, rail, (lsi_range){part, part + 1});
    lsi_narrow(op, lsi_chunk_result(op, c) + range.begin * op->item,
               lsi_chunk_sums(op, c) + lsi_wide_bytes(op, range.begin),
               lsi_range_size(range));
}

static void finish_step(const lsi_collective *op, const lsi_chunk *c)
{
    const lsi_range rails = lsi_own_rails(op->group);
    for (size_t rail = rails.begin; rail < rails.end; rail++) {
        if (moves_sums(op, c->step))
            add_lane(op, c, rail);
        if (moves_sums(op, c->step) && !moves_sums(op, c->step + 1))
            finish_lane(op, c, rail);
    }
}

/* ---- moving on ----------------------------------------------------------- */

static lsi_chunk *chunk_at(const lsi_collective *op, size_t index)
{
    return &lsi_travel_of(op)->chunk[index % LSI_CHUNKS];
}

static ls_status begin_next(const lsi_collective *op)
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
static ls_status exchange(lsi_collective *op, lsi_chunk *c, int limit)
{
    const int steps = lsi_nodes_steps(op->group->net->nodes);
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

static ls_status exchange_all(lsi_collective *op)
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
static ls_status pass_on(const lsi_collective *op)
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

static ls_status begin_all(lsi_collective *op)
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

static ls_status move_on(lsi_collective *op)
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

ls_status lsi_rails_nodes(lsi_collective *op)
{
    return lsi_internode_advance(op, move_on);
}

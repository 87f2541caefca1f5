/*
 * All-reduce of ranks on several nodes. The vector goes in chunks; of each
 * chunk
 *
 *   inside a node    the ranks add up what they have, each the lanes it carries
 *   between nodes    the carriers of a lane exchange and add up their sums, by
 *                    the steps of schedule/nodes.h
 *   inside a node    the ranks take each other's lanes
 *
 * so that every rank of a node feeds the network, and what must cross it does
 * so once. Several chunks are on the way at once: while one is exchanged, the
 * next is added up and the one before is passed on. All ranks of a node begin
 * the parts inside it in one order: sums of the first chunks; then, for each
 * chunk that has been exchanged, its passing on and the sum of the next.
 *
 * Sums are folded inside the node, then over nodes: an order of its own, which
 * depends on which ranks share a node. Half types are added in f32 throughout
 * and rounded once. Bytes that leave a node: 2 S (K-1)/K for K nodes up to 8 or
 * a power of two.
 */
#include <limits.h>
#include <string.h>

#include "base/error.h"
#include "comm/algo/points.h"
#include "comm/collective.h"
#include "comm/failure.h"
#include "comm/far.h"
#include "comm/schedule/nodes.h"
#include "kernels/kernels.h"

enum {
    DEPTH = 4, /* chunks on the way */
    LEAST_CHUNK = 512 * 1024,
    MOST_CHUNK = 8 << 20,
    MOST_LEGS = 2 * LSI_FEW_NODES
};

typedef enum stage { SUMMED, EXCHANGED, WAITS, SPREAD } stage;

typedef struct chunk {
    lsi_op sum, spread; /* inside the node */
    lsi_range range;    /* elements of the vector */
    stage stage;        /* what is being done */
    int step;           /* of the exchange */
    bool posted;        /* the messages of that step */
} chunk;

typedef struct travel {
    size_t chunks, begun, passed; /* how many have come how far */
    chunk chunk[DEPTH];
} travel;

/* ---- sizes --------------------------------------------------------------- */

static lsi_range carried(const ls_group *group)
{
    const lsi_far *far = group->far;
    return lsi_lanes_carried(far->lanes, far->ranks_on[far->node],
                             far->index_of[group->rank]);
}

static size_t unit_of(const lsi_op *op)
{
    return LSI_LINE / op->item;
}

/* Elements of a whole chunk: so that there are some to be on the way. */
static size_t chunk_elements(const lsi_op *op)
{
    size_t bytes = op->block / DEPTH;
    bytes = bytes < LEAST_CHUNK ? LEAST_CHUNK : bytes;
    bytes = bytes > MOST_CHUNK ? MOST_CHUNK : bytes;
    const size_t elements = bytes / op->item / unit_of(op) * unit_of(op);
    return elements < op->call.count ? elements : op->call.count;
}

/* Of a lane, if so many are cut into lanes. */
static size_t lane_elements(const lsi_op *op, size_t elements)
{
    const size_t lanes = (size_t)op->group->far->lanes, unit = unit_of(op);
    return ((elements + lanes - 1) / lanes + unit - 1) / unit * unit;
}

/* What comes in for a lane in one step at most. */
static size_t incoming_elements(const lsi_op *op)
{
    const int nodes = op->group->far->nodes;
    const size_t lane = lane_elements(op, chunk_elements(op));
    const size_t parts = (size_t)lsi_nodes_parts(nodes);
    if (nodes > LSI_FEW_NODES)
        return lane;
    return (size_t)(nodes - 1) *
           lsi_range_size(lsi_partition_aligned(lane, parts, 0, unit_of(op)));
}

static size_t lines(size_t bytes)
{
    return (bytes + LSI_LINE - 1) / LSI_LINE * LSI_LINE;
}

static size_t flights_bytes(const lsi_op *op)
{
    return lines(lsi_range_size(carried(op->group)) * MOST_LEGS *
                 sizeof(lsi_flight));
}

static size_t wide_bytes(const lsi_op *op)
{
    return lsi_sums_scratch(op) == 0
               ? 0
               : lines(lsi_wide_bytes(op, chunk_elements(op)));
}

static size_t incoming_bytes(const lsi_op *op)
{
    return lines(lsi_wide_bytes(op, incoming_elements(op)));
}

/* Of the memory of a chunk that is on the way. */
static size_t slot_bytes(const lsi_op *op)
{
    return flights_bytes(op) + wide_bytes(op) +
           lsi_range_size(carried(op->group)) * incoming_bytes(op);
}

size_t lsi_all_reduce_nodes_scratch(const lsi_op *op)
{
    if (op->group->far == NULL)
        return 0; /* cannot be used, which the ranks will find */
    return lines(sizeof(travel)) + DEPTH * slot_bytes(op);
}

/* ---- places -------------------------------------------------------------- */

static travel *travel_of(const lsi_op *op)
{
    return op->scratch;
}

static unsigned char *slot_of(const lsi_op *op, const chunk *c)
{
    const size_t index = (size_t)(c - travel_of(op)->chunk);
    return (unsigned char *)op->scratch + lines(sizeof(travel)) +
           index * slot_bytes(op);
}

static lsi_flight *flights_of(const lsi_op *op, const chunk *c, size_t lane)
{
    lsi_flight *first = (void *)slot_of(op, c);
    return first + (lane - carried(op->group).begin) * MOST_LEGS;
}

static unsigned char *incoming_of(const lsi_op *op, const chunk *c, size_t lane)
{
    return slot_of(op, c) + flights_bytes(op) + wide_bytes(op) +
           (lane - carried(op->group).begin) * incoming_bytes(op);
}

static unsigned char *result_of(const lsi_op *op, const chunk *c)
{
    return (unsigned char *)op->recv + c->range.begin * op->item;
}

/* Where the sums of a chunk are until they are results. */
static unsigned char *sums_of(const lsi_op *op, const chunk *c)
{
    return wide_bytes(op) == 0 ? result_of(op, c)
                               : slot_of(op, c) + flights_bytes(op);
}

/* Elements of some parts of a lane, counted from the start of the chunk. */
static lsi_range elements_of(const lsi_op *op, const chunk *c, size_t lane,
                             lsi_range parts)
{
    const size_t n = lsi_range_size(c->range);
    const size_t width = lane_elements(op, n), unit = unit_of(op);
    const size_t begin = lane * width < n ? lane * width : n;
    const size_t length = n - begin < width ? n - begin : width;
    const size_t all = (size_t)lsi_nodes_parts(op->group->far->nodes);
    return (lsi_range){
        begin + lsi_partition_aligned(length, all, parts.begin, unit).begin,
        begin + lsi_partition_aligned(length, all, parts.end - 1, unit).end};
}

/* ---- inside the node ----------------------------------------------------- */

static void cut_by_lanes(const lsi_op *op, const chunk *c, lsi_op *part)
{
    part->shard = lane_elements(op, lsi_range_size(c->range));
    part->lanes = (size_t)op->group->far->lanes;
}

static ls_status begin_sum(const lsi_op *op, chunk *c)
{
    const lsi_call call = {.operation = LSI_OP_REDUCE_SHARDS,
                           .dtype = lsi_wide_dtype(op),
                           .redop = op->call.redop == LS_AVG ? LS_SUM
                                                             : op->call.redop,
                           .count = lsi_range_size(c->range)};
    const unsigned char *from =
        (const unsigned char *)op->send + c->range.begin * op->item;
    c->stage = SUMMED;
    c->step = 0;
    c->posted = false;
    if (wide_bytes(op) != 0) {
        lsi_widen(op, sums_of(op, c), from, call.count);
        from = sums_of(op, c);
    }
    lsi_op_nest(&c->sum, op->group->far->local, &call, from, sums_of(op, c));
    cut_by_lanes(op, c, &c->sum);
    return lsi_op_submit(&c->sum);
}

static ls_status begin_spread(const lsi_op *op, chunk *c)
{
    const lsi_call call = {.operation = LSI_OP_GATHER_SHARDS,
                           .dtype = op->call.dtype,
                           .count = lsi_range_size(c->range)};
    unsigned char *data = result_of(op, c);
    c->stage = SPREAD;
    lsi_op_nest(&c->spread, op->group->far->local, &call, data, data);
    cut_by_lanes(op, c, &c->spread);
    return lsi_op_submit(&c->spread);
}

/* ---- between nodes ------------------------------------------------------- */

/* A step in which sums move, or one in which results do. */
static bool moves_sums(const lsi_op *op, int step)
{
    return step < lsi_nodes_first_gather(op->group->far->nodes);
}

static lsi_buffer bytes_of(const lsi_op *op, const chunk *c, lsi_range elements,
                           int step)
{
    if (moves_sums(op, step))
        return (lsi_buffer){sums_of(op, c) + lsi_wide_bytes(op, elements.begin),
                            lsi_wide_bytes(op, lsi_range_size(elements)),
                            LS_U8};
    return (lsi_buffer){result_of(op, c) + elements.begin * op->item,
                        lsi_range_size(elements) * op->item, LS_U8};
}

static int carrier(const lsi_far *far, int node, size_t lane)
{
    return far
        ->rank[far->first[node] +
               lsi_lane_carrier(far->lanes, far->ranks_on[node], (int)lane)];
}

static ls_status post_lane(lsi_op *op, const chunk *c, size_t lane)
{
    lsi_leap leap;
    ls_group *group = op->group;
    const lsi_far *far = group->far;
    const int tag = LSI_TAG_STEP + c->step;
    lsi_flight *flight = flights_of(op, c, lane);
    unsigned char *incoming = incoming_of(op, c, lane);
    memset(flight, 0, MOST_LEGS * sizeof(*flight));
    lsi_nodes_step(far->nodes, far->node, c->step, &leap);
    for (int i = 0; i < leap.ins; i++) {
        const lsi_leg *in = &leap.in[i];
        lsi_buffer to =
            bytes_of(op, c, elements_of(op, c, lane, in->parts), c->step);
        if (leap.adds)
            to.data = incoming + (size_t)i * to.count;
        if (to.count != 0)
            LS_TRY(lsi_far_receive(group, flight++, to.data, to.count,
                                   carrier(far, in->node, lane), tag));
    }
    for (int i = 0; i < leap.outs; i++) {
        const lsi_leg *out = &leap.out[i];
        const lsi_buffer from =
            bytes_of(op, c, elements_of(op, c, lane, out->parts), c->step);
        group->counters->bytes_sent += from.count;
        if (from.count != 0)
            LS_TRY(lsi_far_send(group, flight++, from.data, from.count,
                                carrier(far, out->node, lane), tag));
    }
    return LS_OK;
}

static ls_status post_step(lsi_op *op, chunk *c)
{
    const lsi_range lanes = carried(op->group);
    for (size_t lane = lanes.begin; lane < lanes.end; lane++)
        LS_TRY(post_lane(op, c, lane));
    return LS_OK;
}

static ls_status step_done(const lsi_op *op, const chunk *c)
{
    const lsi_range lanes = carried(op->group);
    for (size_t lane = lanes.begin; lane < lanes.end; lane++) {
        lsi_flight *flights = flights_of(op, c, lane);
        for (int i = 0; i < MOST_LEGS; i++) {
            const ls_status status = lsi_far_test(op->group, &flights[i]);
            if (status != LS_OK)
                return status;
        }
    }
    return LS_OK;
}

/* Folds what has come in with one's own, in the order of the nodes. */
static void add_lane(const lsi_op *op, const chunk *c, size_t lane)
{
    lsi_leap leap;
    const void *srcs[LSI_FEW_NODES + 1];
    const lsi_far *far = op->group->far;
    int n = 0;
    lsi_nodes_step(far->nodes, far->node, c->step, &leap);
    if (leap.ins == 0)
        return;
    const lsi_range range = elements_of(op, c, lane, leap.in[0].parts);
    const lsi_buffer own = bytes_of(op, c, range, c->step);
    for (int i = 0; i < leap.ins; i++) {
        if (n == i && leap.in[i].node > far->node)
            srcs[n++] = own.data;
        srcs[n++] = incoming_of(op, c, lane) + (size_t)i * own.count;
    }
    if (n == leap.ins)
        srcs[n++] = own.data;
    lsi_kernels_get()->reduce(
        own.data, srcs, n, lsi_range_size(range), lsi_wide_dtype(op),
        op->call.redop == LS_AVG ? LS_SUM : op->call.redop, 1.0);
}

/* The part that is complete here becomes a result. */
static void finish_lane(const lsi_op *op, const chunk *c, size_t lane)
{
    const lsi_far *far = op->group->far;
    const size_t part = (size_t)far->node;
    if (far->node >= lsi_nodes_parts(far->nodes))
        return; /* a node that has given all away */
    const lsi_range range =
        elements_of(op, c, lane, (lsi_range){part, part + 1});
    lsi_narrow(op, result_of(op, c) + range.begin * op->item,
               sums_of(op, c) + lsi_wide_bytes(op, range.begin),
               lsi_range_size(range));
}

static void finish_step(const lsi_op *op, const chunk *c)
{
    const lsi_range lanes = carried(op->group);
    for (size_t lane = lanes.begin; lane < lanes.end; lane++) {
        if (moves_sums(op, c->step))
            add_lane(op, c, lane);
        if (moves_sums(op, c->step) && !moves_sums(op, c->step + 1))
            finish_lane(op, c, lane);
    }
}

/* ---- moving on ----------------------------------------------------------- */

static chunk *chunk_at(const lsi_op *op, size_t index)
{
    return &travel_of(op)->chunk[index % DEPTH];
}

static ls_status begin_next(const lsi_op *op)
{
    travel *t = travel_of(op);
    chunk *c = chunk_at(op, t->begun);
    const size_t whole = chunk_elements(op), begin = t->begun * whole;
    const size_t left = op->call.count - begin;
    c->range = (lsi_range){begin, begin + (left < whole ? left : whole)};
    t->begun++;
    return begin_sum(op, c);
}

/*
 * The steps of an exchange, as far as messages have come. Those of one step
 * have one tag and are told apart by their order, so a chunk posts none before
 * the chunk ahead of it has: it may come to step `limit`.
 */
static ls_status exchange(lsi_op *op, chunk *c, int limit)
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
            c->stage = WAITS;
            return LS_OK;
        }
        if (c->step > limit)
            return LS_IN_PROGRESS;
        c->posted = true;
        LS_TRY(post_step(op, c));
    }
}

/* The last step of which a chunk has posted the messages. */
static int furthest(const chunk *c)
{
    if (c->stage == WAITS || c->stage == SPREAD)
        return INT_MAX;
    return c->stage == SUMMED || !c->posted ? c->step - 1 : c->step;
}

static ls_status exchange_all(lsi_op *op)
{
    const travel *t = travel_of(op);
    int limit = INT_MAX;
    for (size_t i = t->passed; i < t->begun; i++) {
        chunk *c = chunk_at(op, i);
        if (c->stage == SUMMED && c->sum.done) {
            LS_TRY(c->sum.status);
            c->stage = EXCHANGED;
        }
        if (c->stage == EXCHANGED) {
            const ls_status status = exchange(op, c, limit);
            if (status != LS_OK && status != LS_IN_PROGRESS)
                return status;
        }
        limit = furthest(c);
    }
    return LS_OK;
}

/* In one order on all ranks of the node. */
static ls_status pass_on(const lsi_op *op)
{
    travel *t = travel_of(op);
    while (t->passed < t->begun && chunk_at(op, t->passed)->stage == WAITS) {
        LS_TRY(begin_spread(op, chunk_at(op, t->passed)));
        t->passed++;
        if (t->begun < t->chunks)
            LS_TRY(begin_next(op));
    }
    return LS_OK;
}

static ls_status begin_all(lsi_op *op)
{
    travel *t = travel_of(op);
    const size_t whole = chunk_elements(op);
    *t = (travel){0};
    if (op->call.count != 0)
        t->chunks = (op->call.count + whole - 1) / whole;
    op->step = 1;
    while (t->begun < t->chunks && t->begun < DEPTH)
        LS_TRY(begin_next(op));
    return LS_OK;
}

static ls_status move_on(lsi_op *op)
{
    if (op->step == 0)
        LS_TRY(begin_all(op));
    LS_TRY(lsi_progress(op->group->far->local));
    LS_TRY(exchange_all(op));
    return pass_on(op);
}

ls_status lsi_all_reduce_nodes(lsi_op *op)
{
    ls_group *group = op->group, *local = group->far->local;
    const travel *t = travel_of(op);
    const uint64_t before = local->activity;
    const ls_status status = move_on(op);
    group->activity += local->activity - before;
    if (status != LS_OK)
        return lsi_has_failed(group) ? status : lsi_far_local_failed(group);
    /* What ranks of a node do together is done in its order. */
    if (t->passed < t->chunks ||
        (t->chunks != 0 && !chunk_at(op, t->chunks - 1)->spread.done))
        return LS_IN_PROGRESS;
    return LS_OK;
}

#include "comm/algo/nodes_chunk.h"

#include "comm/algo/points.h"
#include "comm/far.h"
#include "comm/schedule/nodes.h"

enum { LEAST_CHUNK = 256 * 1024, GOOD_CHUNK = 1 << 20, MOST_CHUNK = 8 << 20 };

/* ---- sizes --------------------------------------------------------------- */

lsi_range lsi_own_lanes(const ls_group *group)
{
    const lsi_far *far = group->far;
    return lsi_lanes_carried(far->lanes, far->ranks_on[far->node],
                             far->index_of[group->rank]);
}

static size_t within(size_t n, size_t least, size_t most)
{
    const size_t more = n < least ? least : n;
    return more < most ? more : most;
}

static size_t unit_of(const lsi_op *op)
{
    return LSI_LINE / op->item;
}

/*
 * So that there are some to be on the way, and the caches hold them, but the
 * parts of a lane are whole pieces.
 */
size_t lsi_chunk_elements(const lsi_op *op)
{
    const lsi_far *far = op->group->far;
    const size_t parts = (size_t)(far->lanes * lsi_nodes_parts(far->nodes));
    const size_t most = within(parts * LSI_WIRE_PIECE, GOOD_CHUNK, MOST_CHUNK);
    const size_t bytes = within(op->block / LSI_CHUNKS, LEAST_CHUNK, most);
    const size_t elements = bytes / op->item / unit_of(op) * unit_of(op);
    return elements < op->call.count ? elements : op->call.count;
}

size_t lsi_lane_elements(const lsi_op *op, size_t elements)
{
    const size_t lanes = (size_t)op->group->far->lanes, unit = unit_of(op);
    return ((elements + lanes - 1) / lanes + unit - 1) / unit * unit;
}

size_t lsi_lane_legs(const lsi_op *op)
{
    const int nodes = op->group->far->nodes;
    return nodes > LSI_FEW_NODES ? 1 : (size_t)nodes - 1;
}

size_t lsi_leg_bytes(const lsi_op *op)
{
    const int nodes = op->group->far->nodes;
    const size_t lane = lsi_lane_elements(op, lsi_chunk_elements(op));
    const size_t parts = (size_t)lsi_nodes_parts(nodes);
    const lsi_range most =
        nodes > LSI_FEW_NODES
            ? (lsi_range){0, lane}
            : lsi_partition_aligned(lane, parts, 0, unit_of(op));
    return lsi_wide_bytes(op, lsi_range_size(most));
}

/* Of the parcels of a lane, and of the flights of all their pieces. */
static size_t parcels_bytes(const lsi_op *op)
{
    return lsi_lines(2 * lsi_lane_legs(op) * sizeof(lsi_parcel));
}

static size_t flights_bytes(const lsi_op *op)
{
    return lsi_lines(2 * lsi_lane_legs(op) *
                     lsi_parcel_pieces(lsi_leg_bytes(op)) * sizeof(lsi_flight));
}

static bool adds(const lsi_op *op)
{
    return lsi_operation_reduces(op->call.operation);
}

/* Whether results have no other place than here. */
static bool keeps_results(const lsi_op *op)
{
    return !lsi_op_receives(op, op->group->rank);
}

static size_t results_bytes(const lsi_op *op)
{
    return keeps_results(op) ? lsi_lines(lsi_chunk_elements(op) * op->item) : 0;
}

static size_t wide_bytes(const lsi_op *op)
{
    return !adds(op) || lsi_sums_scratch(op) == 0
               ? 0
               : lsi_lines(lsi_wide_bytes(op, lsi_chunk_elements(op)));
}

static size_t incoming_bytes(const lsi_op *op)
{
    return adds(op) ? lsi_lines(lsi_lane_legs(op) * lsi_leg_bytes(op)) : 0;
}

static size_t lane_bytes(const lsi_op *op)
{
    return parcels_bytes(op) + flights_bytes(op) + incoming_bytes(op);
}

/* Of the memory of a chunk that is on the way. */
static size_t slot_bytes(const lsi_op *op)
{
    return wide_bytes(op) + results_bytes(op) +
           lsi_range_size(lsi_own_lanes(op->group)) * lane_bytes(op);
}

size_t lsi_lanes_nodes_scratch(const lsi_op *op)
{
    if (op->group->far == NULL)
        return 0; /* cannot be used, which the ranks will find */
    return lsi_lines(sizeof(lsi_travel)) + LSI_CHUNKS * slot_bytes(op);
}

/* ---- places -------------------------------------------------------------- */

lsi_travel *lsi_travel_of(const lsi_op *op)
{
    return op->scratch;
}

static unsigned char *slot_of(const lsi_op *op, const lsi_chunk *c)
{
    const size_t index = (size_t)(c - lsi_travel_of(op)->chunk);
    return (unsigned char *)op->scratch + lsi_lines(sizeof(lsi_travel)) +
           index * slot_bytes(op);
}

/* What belongs to a lane: parcels, their flights, and room for what comes. */
static unsigned char *lane_of(const lsi_op *op, const lsi_chunk *c, size_t lane)
{
    return slot_of(op, c) + wide_bytes(op) + results_bytes(op) +
           (lane - lsi_own_lanes(op->group).begin) * lane_bytes(op);
}

lsi_parcel *lsi_lane_parcels(const lsi_op *op, const lsi_chunk *c, size_t lane)
{
    return (void *)lane_of(op, c, lane);
}

lsi_flight *lsi_lane_flights(const lsi_op *op, const lsi_chunk *c, size_t lane)
{
    return (void *)(lane_of(op, c, lane) + parcels_bytes(op));
}

unsigned char *lsi_lane_incoming(const lsi_op *op, const lsi_chunk *c,
                                 size_t lane)
{
    return lane_of(op, c, lane) + parcels_bytes(op) + flights_bytes(op);
}

unsigned char *lsi_chunk_result(const lsi_op *op, const lsi_chunk *c)
{
    return keeps_results(op)
               ? slot_of(op, c) + wide_bytes(op)
               : (unsigned char *)op->recv + c->range.begin * op->item;
}

unsigned char *lsi_chunk_sums(const lsi_op *op, const lsi_chunk *c)
{
    return wide_bytes(op) == 0 ? lsi_chunk_result(op, c) : slot_of(op, c);
}

lsi_range lsi_lane_range(const lsi_op *op, const lsi_chunk *c, size_t lane,
                         lsi_range parts)
{
    const size_t n = lsi_range_size(c->range);
    const size_t width = lsi_lane_elements(op, n), unit = unit_of(op);
    const size_t begin = lane * width < n ? lane * width : n;
    const size_t length = n - begin < width ? n - begin : width;
    const size_t all = (size_t)lsi_nodes_parts(op->group->far->nodes);
    return (lsi_range){
        begin + lsi_partition_aligned(length, all, parts.begin, unit).begin,
        begin + lsi_partition_aligned(length, all, parts.end - 1, unit).end};
}

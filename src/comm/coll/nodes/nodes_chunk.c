#include "comm/coll/nodes/nodes_chunk.h"

#include "comm/coll/points.h"
#include "comm/net/internode.h"
#include "comm/schedule/nodes.h"

enum { LEAST_CHUNK = 256 * 1024, GOOD_CHUNK = 1 << 20, MOST_CHUNK = 8 << 20 };

/* ---- sizes --------------------------------------------------------------- */

lsi_range lsi_own_rails(const ls_group *group)
{
    const lsi_internode *net = group->net;
    return lsi_rails_carried(net->rails, net->ranks_on[net->node],
                             net->index_of[group->rank]);
}

static size_t within(size_t n, size_t least, size_t most)
{
    const size_t more = n < least ? least : n;
    return more < most ? more : most;
}

static size_t unit_of(const lsi_collective *op)
{
    return LSI_LINE / op->item;
}

/*
 * So that there are some to be on the way, and the caches hold them, but the
 * parts of a rail are whole pieces.
 */
size_t lsi_chunk_elements(const lsi_collective *op)
{
    const lsi_internode *net = op->group->net;
    const size_t parts = (size_t)(net->rails * lsi_nodes_parts(net->nodes));
    const size_t most = within(parts * LSI_WIRE_PIECE, GOOD_CHUNK, MOST_CHUNK);
    const size_t bytes = within(op->block / LSI_CHUNKS, LEAST_CHUNK, most);
    const size_t elements = bytes / op->item / unit_of(op) * unit_of(op);
    return elements < op->call.count ? elements : op->call.count;
}

size_t lsi_rail_elements(const lsi_collective *op, size_t elements)
{
    const size_t rails = (size_t)op->group->net->rails, unit = unit_of(op);
    return ((elements + rails - 1) / rails + unit - 1) / unit * unit;
}

size_t lsi_rail_legs(const lsi_collective *op)
{
    const int nodes = op->group->net->nodes;
    return nodes > LSI_FEW_NODES ? 1 : (size_t)nodes - 1;
}

size_t lsi_leg_bytes(const lsi_collective *op)
{
    const int nodes = op->group->net->nodes;
    const size_t rail = lsi_rail_elements(op, lsi_chunk_elements(op));
    const size_t parts = (size_t)lsi_nodes_parts(nodes);
    const lsi_range most =
        nodes > LSI_FEW_NODES
            ? (lsi_range){0, rail}
            : lsi_partition_aligned(rail, parts, 0, unit_of(op));
    return lsi_wide_bytes(op, lsi_range_size(most));
}

/* Of the bulk messages of a rail, and of the requests of all their fragments.
 */
static size_t parcels_bytes(const lsi_collective *op)
{
    return lsi_lines(2 * lsi_rail_legs(op) * sizeof(lsi_bulk));
}

static size_t requests_bytes(const lsi_collective *op)
{
    return lsi_lines(2 * lsi_rail_legs(op) *
                     lsi_bulk_fragments(lsi_leg_bytes(op)) *
                     sizeof(lsi_wire_request));
}

static bool adds(const lsi_collective *op)
{
    return lsi_operation_reduces(op->call.operation);
}

/* Whether results have no other place than here. */
static bool keeps_results(const lsi_collective *op)
{
    return !lsi_collective_receives(op, op->group->rank);
}

static size_t results_bytes(const lsi_collective *op)
{
    return keeps_results(op) ? lsi_lines(lsi_chunk_elements(op) * op->item) : 0;
}

static size_t wide_bytes(const lsi_collective *op)
{
    return !adds(op) || lsi_sums_scratch(op) == 0
               ? 0
               : lsi_lines(lsi_wide_bytes(op, lsi_chunk_elements(op)));
}

static size_t incoming_bytes(const lsi_collective *op)
{
    return adds(op) ? lsi_lines(lsi_rail_legs(op) * lsi_leg_bytes(op)) : 0;
}

static size_t lane_bytes(const lsi_collective *op)
{
    return parcels_bytes(op) + requests_bytes(op) + incoming_bytes(op);
}

/* Of the memory of a chunk that is on the way. */
static size_t slot_bytes(const lsi_collective *op)
{
    return wide_bytes(op) + results_bytes(op) +
           lsi_range_size(lsi_own_rails(op->group)) * lane_bytes(op);
}

size_t lsi_rails_nodes_scratch(const lsi_collective *op)
{
    if (op->group->net == NULL)
        return 0; /* cannot be used, which the ranks will find */
    return lsi_lines(sizeof(lsi_travel)) + LSI_CHUNKS * slot_bytes(op);
}

/* ---- places -------------------------------------------------------------- */

lsi_travel *lsi_travel_of(const lsi_collective *op)
{
    return op->scratch;
}

static unsigned char *slot_of(const lsi_collective *op, const lsi_chunk *c)
{
    const size_t index = (size_t)(c - lsi_travel_of(op)->chunk);
    return (unsigned char *)op->scratch + lsi_lines(sizeof(lsi_travel)) +
           index * slot_bytes(op);
}

/* What belongs to a rail: bulk messages, their requests, and room for what
 * comes. */
static unsigned char *rail_of(const lsi_collective *op, const lsi_chunk *c,
                              size_t rail)
{
    return slot_of(op, c) + wide_bytes(op) + results_bytes(op) +
           (rail - lsi_own_rails(op->group).begin) * lane_bytes(op);
}

lsi_bulk *lsi_rail_bulks(const lsi_collective *op, const lsi_chunk *c,
                         size_t rail)
{
    return (void *)rail_of(op, c, rail);
}

lsi_wire_request *lsi_rail_requests(const lsi_collective *op,
                                    const lsi_chunk *c, size_t rail)
{
    return (void *)(rail_of(op, c, rail) + parcels_bytes(op));
}

unsigned char *lsi_rail_incoming(const lsi_collective *op, const lsi_chunk *c,
                                 size_t rail)
{
    return rail_of(op, c, rail) + parcels_bytes(op) + requests_bytes(op);
}

unsigned char *lsi_chunk_result(const lsi_collective *op, const lsi_chunk *c)
{
    return keeps_results(op)
               ? slot_of(op, c) + wide_bytes(op)
               : (unsigned char *)op->recv + c->range.begin * op->item;
}

unsigned char *lsi_chunk_sums(const lsi_collective *op, const lsi_chunk *c)
{
    return wide_bytes(op) == 0 ? lsi_chunk_result(op, c) : slot_of(op, c);
}

lsi_range lsi_rail_range(const lsi_collective *op, const lsi_chunk *c,
                         size_t rail, lsi_range parts)
{
    const size_t n = lsi_range_size(c->range);
    const size_t width = lsi_rail_elements(op, n), unit = unit_of(op);
    const size_t begin = rail * width < n ? rail * width : n;
    const size_t length = n - begin < width ? n - begin : width;
    const size_t all = (size_t)lsi_nodes_parts(op->group->net->nodes);
    return (lsi_range){
        begin + lsi_partition_aligned(length, all, parts.begin, unit).begin,
        begin + lsi_partition_aligned(length, all, parts.end - 1, unit).end};
}

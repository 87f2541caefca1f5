/*
 * All-reduce, reduce and reduce-scatter of little data. Each rank writes all
 * its data into its cell, and each rank that needs a result computes it alone,
 * folded in the order of the group.
 *
 * This is `flat`, where only the size decides, and `packed`, which the ranks
 * agree on if no rank's memory is shared.
 *
 * Steps: 1 (the arrival). Bytes that leave a rank: (N-1) S.
 */
#include "comm/coll/algorithm.h"
#include "comm/coll/nodes/by_nodes.h"
#include "comm/core/paths.h"

/* Bytes above which it is faster that each rank reduces a part only. */
enum { MOST_OF_ALL = 256 * 1024 };

bool lsi_reduce_packed_ahead(lsi_collective *op)
{
    const size_t bytes = lsi_most_sent(op);
    if (bytes > LSI_FLAT_BYTES - lsi_cell_table_bytes(op) ||
        bytes * (size_t)op->group->size > (size_t)MOST_OF_ALL)
        return false;
    lsi_pack(op);
    return true;
}

/*
 * Other ranks read this rank's cell meanwhile, and it may hold stores that are
 * still on their way. The buffer has the same data.
 */
static const unsigned char *data_of(const lsi_collective *op, int rank)
{
    return rank == op->group->rank ? op->send : lsi_cell_data(op, rank);
}

ls_status lsi_reduce_flat(lsi_collective *op)
{
    ls_group *group = op->group;
    const void *srcs[LSI_MAX_RANKS];
    lsi_range range = {0, op->call.count};
    unsigned char *to = op->recv;
    if (!lsi_operation_reduces_whole(op->call.operation)) {
        range = lsi_block_of(op, group->rank);
        to += lsi_delivery_offset(op, range.begin);
    }
    for (int r = 0; r < group->size; r++)
        srcs[r] = data_of(op, r) + range.begin * op->item;
    if (lsi_collective_receives(op, group->rank))
        lsi_reduce_ranks(op, to, srcs, lsi_range_size(range));
    for (int r = 0; r < group->size; r++)
        if (r != group->rank && lsi_collective_receives(op, r))
            group->counters->bytes_sent += op->block;
    return LS_OK;
}

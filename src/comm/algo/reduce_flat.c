/*
 * All-reduce, reduce and reduce-scatter of little data: each rank has put all
 * it has into its cell, and each rank that wants a result computes it alone,
 * folded as in kernels.def.
 *
 * This is `flat`, where nothing but the size decides, and `packed`, which the
 * ranks agree on if no rank's memory is shared.
 *
 * Steps: 1 (the arrival). Bytes that leave a rank: (N-1) S.
 */
#include "comm/algo/algorithm.h"
#include "comm/paths.h"

/* Past this, it pays that each rank reduces a part only. */
enum { MOST_OF_ALL = 256 * 1024 };

bool lsi_reduce_packed_ahead(lsi_op *op)
{
    const size_t bytes = lsi_contribution_most(lsi_place_of(op));
    if (bytes > LSI_FLAT_BYTES ||
        bytes * (size_t)op->group->size > (size_t)MOST_OF_ALL)
        return false;
    lsi_pack(op);
    return true;
}

ls_status lsi_reduce_flat(lsi_op *op)
{
    ls_group *group = op->group;
    const void *srcs[LSI_MAX_RANKS];
    lsi_range range = {0, op->call.count};
    unsigned char *to = op->recv;
    if (op->call.operation == LSI_OP_REDUCE_SCATTER)
        range = lsi_block_of(op, group->rank);
    if (op->call.operation == LSI_OP_REDUCE_SHARDS) {
        range = lsi_block_of(op, group->rank);
        to += range.begin * op->item;
    }
    const bool wants =
        op->call.operation != LSI_OP_REDUCE || op->call.root == group->rank;
    for (int r = 0; r < group->size; r++)
        srcs[r] = lsi_cell_data(op, r) + range.begin * op->item;
    if (wants)
        lsi_reduce_into(op, to, srcs, group->size, lsi_range_size(range));
    const size_t readers = op->call.operation == LSI_OP_REDUCE
                               ? (op->call.root != group->rank)
                               : (size_t)(group->size - 1);
    group->counters->bytes_sent += readers * op->block;
    return LS_OK;
}

/*
 * Broadcast, all-gather, gather, scatter and all-to-all of little data: what a
 * rank sends is in its cell, and those who want it take it.
 *
 * Steps: 1 (the arrival). Bytes that leave a rank: what others take.
 */
#include <string.h>

#include "comm/coll/algorithm.h"
#include "comm/coll/move/move.h"
#include "comm/core/paths.h"

ls_status lsi_move_flat(lsi_collective *op)
{
    const lsi_place place = lsi_place_of(op);
    unsigned char *recv = op->recv;
    for (int r = 0; r < place.size; r++) {
        const lsi_pull pull = lsi_pull_of(&place, op->group->rank, r);
        if (pull.bytes != 0)
            memcpy(recv + pull.to, lsi_cell_data(op, r) + pull.from,
                   pull.bytes);
    }
    lsi_count_moved(op);
    return LS_OK;
}

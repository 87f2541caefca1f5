/*
 * Broadcast, all-gather, gather, scatter and all-to-all of little data: a
 * rank's cell holds the data it sends, and the receivers copy it. This is
 * `flat`, where only the size decides, and `packed`, where each rank knows only
 * its own size.
 *
 * Steps: 1 (the arrival). Bytes that leave a rank: what others take.
 */
#include <string.h>

#include "comm/coll/algorithm.h"
#include "comm/coll/move/move.h"
#include "comm/core/paths.h"

bool lsi_move_packed_ahead(lsi_collective *op)
{
    if (op->sent > LSI_FLAT_BYTES - lsi_cell_table_bytes(op))
        return false;
    lsi_pack(op);
    return true;
}

/* The own block comes from the buffer, as in reduce_flat.c. */
ls_status lsi_move_flat(lsi_collective *op)
{
    const lsi_place place = lsi_place_of(op);
    unsigned char *recv = op->recv;
    lsi_move_own(op);
    for (int r = 0; r < place.size; r++) {
        const lsi_pull pull = lsi_pull_of(&place, op->group->rank, r);
        if (pull.bytes != 0 && r != op->group->rank)
            memcpy(recv + pull.to, lsi_cell_data(op, r) + pull.from,
                   pull.bytes);
    }
    lsi_count_moved(op);
    return LS_OK;
}

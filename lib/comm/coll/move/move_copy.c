/*
 * Broadcast, all-gather, gather, scatter and all-to-all of private memory that
 * other processes may read (process_vm_readv): each rank copies the data it
 * needs once, from its place.
 *
 * Steps: 2 (arrival, done). Bytes that leave a rank: what others take.
 */
#include "base/error.h"
#include "comm/coll/algorithm.h"
#include "comm/coll/move/move.h"
#include "comm/core/paths.h"
#include "comm/node/remote.h"

static ls_status read_peers(const lsi_collective *op)
{
    const lsi_place place = lsi_place_of(op);
    const int rank = op->group->rank;
    for (int i = 1; i < place.size; i++) {
        const int peer = (rank + i) % place.size;
        const lsi_pull pull = lsi_pull_of(&place, rank, peer);
        if (pull.bytes == 0)
            continue;
        LS_TRY(lsi_remote_read(
            op->group, peer, (unsigned char *)op->recv + pull.to,
            lsi_offer_of(op, peer)->send + pull.from, pull.bytes));
    }
    lsi_move_own(op);
    lsi_count_moved(op);
    return LS_OK;
}

ls_status lsi_move_copy(lsi_collective *op)
{
    if (op->step == 0) {
        LS_TRY(read_peers(op));
        op->step = 1;
        lsi_collective_publish(op);
    }
    return lsi_collective_arrived(op);
}

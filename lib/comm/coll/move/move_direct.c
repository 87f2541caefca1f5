/*
 * Broadcast, all-gather, gather, scatter and all-to-all where each rank can
 * load from the others' send buffers. A rank copies the data it needs, starting
 * with the rank after it, so that not all read from the same one.
 *
 * Steps: 2 (arrival, done). Bytes that leave a rank: what others take.
 */
#include <string.h>

#include "comm/coll/algorithm.h"
#include "comm/coll/move/move.h"
#include "comm/core/paths.h"

static void copy_peers(const lsi_collective *op)
{
    const lsi_place place = lsi_place_of(op);
    const int rank = op->group->rank;
    for (int i = 1; i < place.size; i++) {
        const int peer = (rank + i) % place.size;
        const lsi_pull pull = lsi_pull_of(&place, rank, peer);
        if (pull.bytes != 0)
            memcpy((unsigned char *)op->recv + pull.to,
                   lsi_seen_send(op, peer) + pull.from, pull.bytes);
    }
    lsi_move_own(op);
    lsi_count_moved(op);
}

ls_status lsi_move_direct(lsi_collective *op)
{
    if (op->step == 0) {
        copy_peers(op);
        op->step = 1;
        lsi_collective_publish(op);
    }
    return lsi_collective_arrived(op);
}

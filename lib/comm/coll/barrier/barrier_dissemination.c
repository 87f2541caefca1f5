/*
 * Barrier by dissemination, point to point only: in round k each rank sends an
 * empty message 2^k places to its right. After the last round it has heard from
 * all ranks, directly or through others. Without a central rank, all are done
 * after the same number of messages.
 *
 *   round 0   0 -> 1 -> 2 -> 3 -> 4 -> 0
 *   round 1   0 -> 2 -> 4 -> 1 -> 3 -> 0
 *   round 2   0 -> 4 -> 3 -> 2 -> 1 -> 0
 *
 * Steps: log2 N, rounded up. Bytes: none but the envelopes.
 */
#include "comm/coll/points.h"
#include "comm/schedule/tree.h"

static void post(lsi_collective *op, int step)
{
    const int rank = op->group->rank, n = op->group->size;
    const lsi_buffer nothing = {NULL, 0, LS_U8};
    lsi_post_send(op, nothing, lsi_dissemination_sends_to(rank, n, step - 1));
    lsi_post_receive(op, nothing,
                     lsi_dissemination_receives_from(rank, n, step - 1));
}

ls_status lsi_barrier_dissemination(lsi_collective *op)
{
    const int rounds = lsi_doubling_rounds(op->group->size);
    return lsi_points_steps(op, rounds, post, NULL);
}

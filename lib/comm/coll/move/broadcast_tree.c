/*
 * Broadcast along a binomial tree, point to point only: in each round every
 * rank that has the data sends it to one that has not.
 *
 *   round 0   0 -> 1
 *   round 1   0 -> 2   1 -> 3
 *   round 2   0 -> 4   1 -> 5   2 -> 6   3 -> 7
 *
 * Any length and any N. Steps: log2 N, rounded up. Bytes that leave a rank: S
 * in each round after it has received them, so S log2 N at the root.
 */
#include "comm/coll/points.h"
#include "comm/schedule/tree.h"

static void post(lsi_collective *op, int step)
{
    const int rank = op->group->rank, n = op->group->size;
    const int root = op->call.root, round = step - 1;
    const lsi_buffer data = {op->recv, op->call.count, op->call.dtype};
    const int to = lsi_tree_sends_to(rank, n, root, round);
    const int from = lsi_tree_receives_from(rank, n, root, round);
    if (to >= 0)
        lsi_post_send(op, data, to);
    if (from >= 0)
        lsi_post_receive(op, data, from);
}

ls_status lsi_broadcast_tree(lsi_collective *op)
{
    const int rounds = lsi_doubling_rounds(op->group->size);
    return lsi_points_steps(op, rounds, post, NULL);
}

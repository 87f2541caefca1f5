/*
 * All-reduce by recursive doubling, point to point only: partners at distance
 * P/2, P/4, ..., 1 exchange all their data and add it up. For short messages
 * where ranks cannot see each other's cells cheaply.
 *
 *   distance 2   0<->2  1<->3     distance 1   0<->1  2<->3
 *
 * Both partners add the lower rank's first, so all end with the same bits.
 * Steps: log2 N (+ 2 if N is not a power of two). Bytes that leave a rank: S
 * log2 N.
 */
#include "comm/coll/points.h"
#include "comm/schedule/halving.h"

size_t lsi_all_reduce_doubling_scratch(const lsi_collective *op)
{
    return lsi_sums_scratch(op) + lsi_wide_bytes(op, op->call.count);
}

static lsi_buffer all_sums(const lsi_collective *op)
{
    return (lsi_buffer){lsi_sums(op), op->call.count, lsi_wide_dtype(op)};
}

static lsi_buffer all_incoming(const lsi_collective *op)
{
    return (lsi_buffer){lsi_incoming(op), op->call.count, lsi_wide_dtype(op)};
}

static lsi_buffer result(const lsi_collective *op)
{
    return (lsi_buffer){op->recv, op->call.count, op->call.dtype};
}

/* The partner in round k = 0..rounds-1. */
static int partner(const lsi_collective *op, lsi_halving h, int k)
{
    return op->group->rank ^ lsi_halving_distance(h, k);
}

/* Step 1 folds, 2..rounds+1 exchange, rounds+2 unfolds. */
static void post(lsi_collective *op, int step)
{
    const int rank = op->group->rank;
    const lsi_halving h = lsi_halving_of(op->group->size);
    const int fold = lsi_halving_fold_peer(h, rank);
    const bool folded = lsi_halving_folded(h, rank);
    if (step == 1 && fold >= 0) {
        if (folded)
            lsi_post_send(op, all_sums(op), fold);
        else
            lsi_post_receive(op, all_incoming(op), fold);
    } else if (step == h.rounds + 2 && fold >= 0) {
        if (folded)
            lsi_post_receive(op, result(op), fold);
        else
            lsi_post_send(op, result(op), fold);
    } else if (step >= 2 && step <= h.rounds + 1 && !folded) {
        lsi_post_send(op, all_sums(op), partner(op, h, step - 2));
        lsi_post_receive(op, all_incoming(op), partner(op, h, step - 2));
    }
}

static void finish(lsi_collective *op, int step)
{
    const int rank = op->group->rank;
    const lsi_halving h = lsi_halving_of(op->group->size);
    const lsi_buffer sums = all_sums(op);
    if (lsi_halving_folded(h, rank))
        return;
    if (step == 1 && lsi_halving_fold_peer(h, rank) >= 0)
        lsi_accumulate(op, sums.data, lsi_incoming(op), sums.count, false);
    if (step >= 2 && step <= h.rounds + 1)
        lsi_accumulate(op, sums.data, lsi_incoming(op), sums.count,
                       partner(op, h, step - 2) < rank);
    if (step == h.rounds + 1)
        lsi_narrow(op, op->recv, sums.data, sums.count);
}

ls_status lsi_all_reduce_doubling(lsi_collective *op)
{
    const int rounds = lsi_halving_of(op->group->size).rounds;
    return lsi_points_run(op, rounds + 2, post, finish);
}

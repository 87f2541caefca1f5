/*
 * All-reduce by recursive halving and doubling (Rabenseifner), point to point
 * only: a reduce-scatter in which the data halves in each round, then an
 * all-gather in which it doubles. Few steps and the least bytes.
 *
 * Steps: 2 log2 N (+ 2 if N is not a power of two, when N - P ranks also send
 * and receive all data once). Bytes that leave a rank: 2 S (P-1)/P.
 */
#include "comm/coll/points.h"
#include "comm/schedule/halving.h"

size_t lsi_all_reduce_halving_scratch(const lsi_collective *op)
{
    return lsi_sums_scratch(op) + lsi_wide_bytes(op, op->call.count);
}

/*
 * Elements of blocks first..first+blocks-1, with a block for each participant.
 */
static lsi_range blocks_of(const lsi_collective *op, lsi_halving h, int first,
                           int blocks)
{
    const size_t parts = (size_t)h.active, unit = LSI_LINE / op->item;
    const size_t count = op->call.count;
    const size_t last = (size_t)(first + blocks - 1);
    return (lsi_range){
        lsi_partition_aligned(count, parts, (size_t)first, unit).begin,
        lsi_partition_aligned(count, parts, last, unit).end};
}

static lsi_buffer wide(const lsi_collective *op, unsigned char *vector,
                       lsi_range range)
{
    return (lsi_buffer){vector + lsi_wide_bytes(op, range.begin),
                        lsi_range_size(range), lsi_wide_dtype(op)};
}

static lsi_buffer result(const lsi_collective *op, lsi_range range)
{
    return (lsi_buffer){(unsigned char *)op->recv + range.begin * op->item,
                        lsi_range_size(range), op->call.dtype};
}

/* The elements that a rank and its partner keep in a halving round. */
typedef struct exchange {
    int partner; /* rank of the partner */
    lsi_range mine, theirs;
} exchange;

static exchange exchange_of(const lsi_collective *op, lsi_halving h, int k)
{
    const int rank = op->group->rank;
    const int distance = lsi_halving_distance(h, k);
    const int partner = rank ^ distance;
    return (exchange){
        partner, blocks_of(op, h, lsi_halving_keeps(rank, distance), distance),
        blocks_of(op, h, lsi_halving_keeps(partner, distance), distance)};
}

static void post_fold(lsi_collective *op, lsi_halving h, bool back)
{
    const int rank = op->group->rank;
    const int peer = lsi_halving_fold_peer(h, rank);
    const lsi_range all = {0, op->call.count};
    if (peer < 0)
        return;
    if (back) {
        if (lsi_halving_folded(h, rank))
            lsi_post_receive(op, result(op, all), peer);
        else
            lsi_post_send(op, result(op, all), peer);
    } else if (lsi_halving_folded(h, rank)) {
        lsi_post_send(op, wide(op, lsi_sums(op), all), peer);
    } else {
        lsi_post_receive(op, wide(op, lsi_incoming(op), all), peer);
    }
}

/* Step 1 folds, then come halving and doubling rounds; the last unfolds. */
static void post(lsi_collective *op, int step)
{
    const lsi_halving h = lsi_halving_of(op->group->size);
    const int last = 2 * h.rounds + 2;
    if (step == 1 || step == last) {
        post_fold(op, h, step == last);
        return;
    }
    if (lsi_halving_folded(h, op->group->rank))
        return;
    const int k = step - 2;
    if (k < h.rounds) {
        const exchange e = exchange_of(op, h, k);
        lsi_post_send(op, wide(op, lsi_sums(op), e.theirs), e.partner);
        lsi_post_receive(op, wide(op, lsi_incoming(op), e.mine), e.partner);
    } else {
        const exchange e = exchange_of(op, h, 2 * h.rounds - 1 - k);
        lsi_post_send(op, result(op, e.mine), e.partner);
        lsi_post_receive(op, result(op, e.theirs), e.partner);
    }
}

static void finish(lsi_collective *op, int step)
{
    const int rank = op->group->rank;
    const lsi_halving h = lsi_halving_of(op->group->size);
    const int k = step - 2;
    if (lsi_halving_folded(h, rank))
        return;
    if (step == 1 && lsi_halving_fold_peer(h, rank) >= 0)
        lsi_accumulate(op, lsi_sums(op), lsi_incoming(op), op->call.count,
                       false);
    if (k >= 0 && k < h.rounds) {
        const exchange e = exchange_of(op, h, k);
        lsi_accumulate(op, wide(op, lsi_sums(op), e.mine).data,
                       wide(op, lsi_incoming(op), e.mine).data,
                       lsi_range_size(e.mine), e.partner < rank);
    }
    if (step == h.rounds + 1) {
        const lsi_range own = blocks_of(op, h, rank, 1);
        lsi_narrow(op, result(op, own).data, wide(op, lsi_sums(op), own).data,
                   lsi_range_size(own));
    }
}

ls_status lsi_all_reduce_halving(lsi_collective *op)
{
    const int rounds = lsi_halving_of(op->group->size).rounds;
    return lsi_points_run(op, 2 * rounds + 2, post, finish);
}

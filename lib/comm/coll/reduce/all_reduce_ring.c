/*
 * All-reduce on a ring, point to point only: N-1 steps in which partial sums
 * travel to the right and grow, then N-1 steps in which results do.
 *
 *   rank 0 -> rank 1 -> rank 2 -> ... -> rank 0
 *
 * Any length and any N: blocks may differ in size and be empty.
 * Steps: 2 (N-1). Bytes that leave a rank: 2 S (N-1)/N, the least possible
 * (twice that in the first half for half types, whose sums travel as f32).
 */
#include "comm/coll/points.h"
#include "comm/schedule/ring.h"

size_t lsi_all_reduce_ring_scratch(const lsi_collective *op)
{
    return lsi_sums_scratch(op) + lsi_wide_bytes(op, lsi_largest_block(op));
}

static lsi_buffer sums_of(const lsi_collective *op, int block)
{
    const lsi_range range = lsi_block_of(op, block);
    return (lsi_buffer){lsi_sums(op) + lsi_wide_bytes(op, range.begin),
                        lsi_range_size(range), lsi_wide_dtype(op)};
}

static lsi_buffer result_of(const lsi_collective *op, int block)
{
    const lsi_range range = lsi_block_of(op, block);
    return (lsi_buffer){(unsigned char *)op->recv + range.begin * op->item,
                        lsi_range_size(range), op->call.dtype};
}

/* Steps 1..N-1 sum, steps N..2(N-1) gather. */
static void post(lsi_collective *op, int t)
{
    const int rank = op->group->rank, n = op->group->size;
    lsi_buffer out, in;
    if (t < n) {
        out = sums_of(op, lsi_ring_reduce_sends(rank, n, t));
        in = sums_of(op, lsi_ring_reduce_receives(rank, n, t));
        in.data = lsi_incoming(op);
    } else {
        out = result_of(op, lsi_ring_gather_sends(rank, n, t - n + 1));
        in = result_of(op, lsi_ring_gather_receives(rank, n, t - n + 1));
    }
    lsi_post_send(op, out, lsi_ring_right(rank, n));
    lsi_post_receive(op, in, lsi_ring_left(rank, n));
}

static void finish(lsi_collective *op, int t)
{
    const int rank = op->group->rank, n = op->group->size;
    if (t >= n)
        return;
    const lsi_buffer acc = sums_of(op, lsi_ring_reduce_receives(rank, n, t));
    lsi_accumulate(op, acc.data, lsi_incoming(op), acc.count, true);
    if (t == n - 1)
        lsi_narrow(op, result_of(op, rank).data, acc.data, acc.count);
}

/* One rank: copies its data as the result. */
static ls_status alone(lsi_collective *op)
{
    lsi_widen(op, lsi_sums(op), op->send, op->call.count);
    lsi_narrow(op, op->recv, lsi_sums(op), op->call.count);
    return LS_OK;
}

ls_status lsi_all_reduce_ring(lsi_collective *op)
{
    const int n = op->group->size;
    return n == 1 ? alone(op) : lsi_points_run(op, 2 * (n - 1), post, finish);
}

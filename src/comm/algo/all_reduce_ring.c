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
#include "base/error.h"
#include "comm/algo/points.h"
#include "comm/message.h"
#include "comm/schedule/ring.h"

/* The vector of partial sums: in place if the type is wide enough. */
static unsigned char *sums(const lsi_op *op)
{
    return lsi_wide_dtype(op) == op->call.dtype ? op->recv : op->scratch;
}

static unsigned char *incoming(const lsi_op *op)
{
    unsigned char *scratch = op->scratch;
    return lsi_wide_dtype(op) == op->call.dtype
               ? scratch
               : scratch + lsi_wide_bytes(op, op->call.count);
}

size_t lsi_all_reduce_ring_scratch(const lsi_op *op)
{
    const size_t block = lsi_wide_bytes(op, lsi_largest_block(op));
    return lsi_wide_dtype(op) == op->call.dtype
               ? block
               : block + lsi_wide_bytes(op, op->call.count);
}

static void post(lsi_op *op, lsi_buffer out, lsi_buffer in)
{
    ls_group *group = op->group;
    lsi_message_send(group, &op->out, LSI_CHANNEL_COLLECTIVE, out,
                     lsi_ring_right(group->rank, group->size));
    lsi_message_receive(group, &op->in, LSI_CHANNEL_COLLECTIVE, in,
                        lsi_ring_left(group->rank, group->size));
}

static lsi_buffer sums_of(const lsi_op *op, int block)
{
    const lsi_range range = lsi_block_of(op, block);
    return (lsi_buffer){sums(op) + lsi_wide_bytes(op, range.begin),
                        lsi_range_size(range), lsi_wide_dtype(op)};
}

static lsi_buffer result_of(const lsi_op *op, int block)
{
    const lsi_range range = lsi_block_of(op, block);
    return (lsi_buffer){(unsigned char *)op->recv + range.begin * op->item,
                        lsi_range_size(range), op->call.dtype};
}

/* Posts the messages of step t = 1..2(N-1). */
static void post_step(lsi_op *op, int t)
{
    const int rank = op->group->rank, n = op->group->size;
    if (t < n) {
        lsi_buffer in = sums_of(op, lsi_ring_reduce_receives(rank, n, t));
        in.data = incoming(op);
        post(op, sums_of(op, lsi_ring_reduce_sends(rank, n, t)), in);
    } else {
        t -= n - 1;
        post(op, result_of(op, lsi_ring_gather_sends(rank, n, t)),
             result_of(op, lsi_ring_gather_receives(rank, n, t)));
    }
}

/* Uses what step t has brought. */
static void finish_step(lsi_op *op, int t)
{
    const int rank = op->group->rank, n = op->group->size;
    if (t >= n)
        return;
    const lsi_buffer acc = sums_of(op, lsi_ring_reduce_receives(rank, n, t));
    lsi_accumulate(op, acc.data, incoming(op), acc.count);
    if (t == n - 1)
        lsi_narrow(op, result_of(op, rank).data, sums_of(op, rank).data,
                   acc.count);
}

ls_status lsi_all_reduce_ring(lsi_op *op)
{
    const int steps = 2 * (op->group->size - 1);
    if (op->step == 0) {
        lsi_widen(op, sums(op), op->send, op->call.count);
        if (steps == 0) {
            lsi_narrow(op, op->recv, sums(op), op->call.count);
            return LS_OK;
        }
        op->step = 1;
        post_step(op, 1);
    }
    for (;;) {
        LS_TRY(lsi_messages_progress(op->group));
        if (!op->out.done || !op->in.done)
            return LS_IN_PROGRESS;
        finish_step(op, (int)op->step);
        if ((int)op->step == steps)
            return LS_OK;
        post_step(op, (int)++op->step);
    }
}

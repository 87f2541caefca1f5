/*
 * All-reduce by two exchanges of everybody with everybody, point to point
 * only: block j of each rank goes to rank j, which reduces the N blocks it then
 * holds and sends the result to all.
 *
 * Steps: 2, of N-1 messages each. Bytes that leave a rank: 2 S (N-1)/N.
 */
#include "base/error.h"
#include "comm/algo/points.h"
#include "comm/message.h"

/* Scratch: 2 N messages, then a slot for each rank's version of one's block. */
static lsi_message *messages(const lsi_op *op)
{
    return op->scratch;
}

static unsigned char *slot(const lsi_op *op, int rank)
{
    const size_t before = 2 * (size_t)op->group->size * sizeof(lsi_message);
    return (unsigned char *)op->scratch + before +
           (size_t)rank * lsi_largest_block(op) * op->item;
}

size_t lsi_all_reduce_butterfly_scratch(const lsi_op *op)
{
    const size_t n = (size_t)op->group->size;
    return 2 * n * sizeof(lsi_message) + n * lsi_largest_block(op) * op->item;
}

static lsi_buffer block_in(const lsi_op *op, void *vector, int block)
{
    const lsi_range range = lsi_block_of(op, block);
    return (lsi_buffer){(unsigned char *)vector + range.begin * op->item,
                        lsi_range_size(range), op->call.dtype};
}

static void post(lsi_op *op, int peer, lsi_buffer out, lsi_buffer in)
{
    lsi_message *message = messages(op) + 2 * peer;
    lsi_message_send(op->group, message, LSI_CHANNEL_COLLECTIVE, out, peer);
    lsi_message_receive(op->group, message + 1, LSI_CHANNEL_COLLECTIVE, in,
                        peer);
}

static void post_scatter(lsi_op *op)
{
    const int rank = op->group->rank, n = op->group->size;
    union {
        const void *read;
        void *write;
    } send = {op->send}; /* messages have one pointer for both directions */
    for (int i = 1; i < n; i++) {
        const int peer = (rank + i) % n;
        lsi_buffer in = block_in(op, op->recv, rank);
        in.data = slot(op, peer);
        post(op, peer, block_in(op, send.write, peer), in);
    }
}

static void post_gather(lsi_op *op)
{
    const int rank = op->group->rank, n = op->group->size;
    for (int i = 1; i < n; i++) {
        const int peer = (rank + i) % n;
        post(op, peer, block_in(op, op->recv, rank),
             block_in(op, op->recv, peer));
    }
}

static void reduce_own(lsi_op *op)
{
    const int rank = op->group->rank, n = op->group->size;
    const lsi_range range = lsi_block_of(op, rank);
    const void *srcs[LSI_MAX_RANKS];
    for (int r = 0; r < n; r++)
        srcs[r] = slot(op, r);
    srcs[rank] = (const unsigned char *)op->send + range.begin * op->item;
    lsi_reduce_into(op, block_in(op, op->recv, rank).data, srcs, n,
                    lsi_range_size(range));
}

static bool all_done(const lsi_op *op)
{
    const int rank = op->group->rank, n = op->group->size;
    for (int r = 0; r < n; r++)
        if (r != rank &&
            !(messages(op)[2 * r].done && messages(op)[2 * r + 1].done))
            return false;
    return true;
}

ls_status lsi_all_reduce_butterfly(lsi_op *op)
{
    if (op->step == 0) {
        post_scatter(op);
        op->step = 1;
    }
    LS_TRY(lsi_messages_progress(op->group));
    if (!all_done(op))
        return LS_IN_PROGRESS;
    if (op->step == 1) {
        reduce_own(op);
        post_gather(op);
        op->step = 2;
        LS_TRY(lsi_messages_progress(op->group));
        if (!all_done(op))
            return LS_IN_PROGRESS;
    }
    return LS_OK;
}

/*
 * All-reduce, reduce and reduce-scatter by exchanges of all ranks with all,
 * point to point only. Block j of each rank goes to rank j, which reduces the N
 * blocks in the order of the group and sends the result to its receivers.
 *
 * Steps: 2, of N-1 messages each (1, if no other rank gets the result). Bytes
 * that leave a rank: 2 S (N-1)/N for all-reduce, half of it for the others.
 */
#include "base/error.h"
#include "comm/coll/nodes/by_nodes.h"
#include "comm/coll/points.h"
#include "comm/core/message.h"

static size_t block_bytes(const lsi_collective *op, int block)
{
    return lsi_range_size(lsi_block_of(op, block)) * op->item;
}

/*
 * Scratch: 2 N messages, then a slot for each rank's version of this rank's
 * block.
 */
static lsi_message *messages(const lsi_collective *op)
{
    return op->scratch;
}

static unsigned char *slot(const lsi_collective *op, int rank)
{
    const size_t before = 2 * (size_t)op->group->size * sizeof(lsi_message);
    return (unsigned char *)op->scratch + before +
           (size_t)rank * block_bytes(op, op->group->rank);
}

size_t lsi_reduce_butterfly_scratch(const lsi_collective *op)
{
    const size_t n = (size_t)op->group->size;
    return 2 * n * sizeof(lsi_message) + n * block_bytes(op, op->group->rank);
}

/* The data that a rank sends to the owner of a block. */
static lsi_buffer given(const lsi_collective *op, int block)
{
    const lsi_range range = lsi_block_of(op, block);
    return (lsi_buffer){lsi_to_send(op->send) + range.begin * op->item,
                        lsi_range_size(range), op->call.dtype};
}

/*
 * The buffer of a block's result; this rank's slot if it does not receive it.
 */
static lsi_buffer result(const lsi_collective *op, int block)
{
    const int rank = op->group->rank;
    const lsi_range range = lsi_block_of(op, block);
    lsi_buffer to = {slot(op, rank), lsi_range_size(range), op->call.dtype};
    if (to.count != 0 && lsi_delivers_to(op, block, rank))
        to.data =
            (unsigned char *)op->recv + lsi_delivery_offset(op, range.begin);
    return to;
}

static void post_scatter(lsi_collective *op)
{
    const int rank = op->group->rank, n = op->group->size;
    for (int i = 1; i < n; i++) {
        const int peer = (rank + i) % n;
        lsi_buffer in = result(op, rank);
        in.data = slot(op, peer);
        lsi_message_send(op->group, messages(op) + 2 * peer,
                         LSI_CHANNEL_COLLECTIVE, given(op, peer), peer);
        lsi_message_receive(op->group, messages(op) + 2 * peer + 1,
                            LSI_CHANNEL_COLLECTIVE, in, peer);
    }
}

static void post_gather(lsi_collective *op)
{
    const int rank = op->group->rank, n = op->group->size;
    for (int i = 1; i < n; i++) {
        const int peer = (rank + i) % n;
        if (lsi_delivers_to(op, rank, peer))
            lsi_message_send(op->group, messages(op) + 2 * peer,
                             LSI_CHANNEL_COLLECTIVE, result(op, rank), peer);
        if (lsi_delivers_to(op, peer, rank))
            lsi_message_receive(op->group, messages(op) + 2 * peer + 1,
                                LSI_CHANNEL_COLLECTIVE, result(op, peer), peer);
    }
}

static void reduce_own(lsi_collective *op)
{
    const int rank = op->group->rank, n = op->group->size;
    const void *srcs[LSI_MAX_RANKS];
    const lsi_buffer to = result(op, rank);
    for (int r = 0; r < n; r++)
        srcs[r] = slot(op, r);
    srcs[rank] = given(op, rank).data;
    lsi_reduce_ranks(op, to.data, srcs, to.count);
}

static bool all_done(const lsi_collective *op)
{
    const int rank = op->group->rank, n = op->group->size;
    for (int r = 0; r < n; r++)
        if (r != rank &&
            !(messages(op)[2 * r].done && messages(op)[2 * r + 1].done))
            return false;
    return true;
}

ls_status lsi_reduce_butterfly(lsi_collective *op)
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

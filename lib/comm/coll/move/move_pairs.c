/*
 * All-gather, gather, scatter and all-to-all, point to point only: the data
 * that a rank needs of another comes in one message.
 *
 * Steps: 1, of up to N-1 messages in each direction. Bytes that leave a rank:
 * what others take.
 */
#include <string.h>

#include "base/error.h"
#include "comm/coll/algorithm.h"
#include "comm/coll/move/move.h"
#include "comm/core/message.h"
#include "comm/core/paths.h"

/* Scratch: 2 N messages, then the saved data. */
static lsi_message *messages(const lsi_collective *op)
{
    return op->scratch;
}

static size_t messages_bytes(const lsi_collective *op)
{
    return 2 * (size_t)op->group->size * sizeof(lsi_message);
}

size_t lsi_move_pairs_scratch(const lsi_collective *op)
{
    return messages_bytes(op) + (lsi_exchanges_in_place(op) ? lsi_sent(op) : 0);
}

static unsigned char *sent_from(const lsi_collective *op)
{
    return lsi_exchanges_in_place(op)
               ? (unsigned char *)op->scratch + messages_bytes(op)
               : lsi_to_send(op->send);
}

static void post(lsi_collective *op)
{
    const lsi_place place = lsi_place_of(op);
    const int rank = op->group->rank;
    if (lsi_exchanges_in_place(op))
        memcpy(sent_from(op), op->send, lsi_sent(op));
    for (int r = 0; r < place.size; r++)
        messages(op)[2 * r].done = messages(op)[2 * r + 1].done = true;
    for (int i = 1; i < place.size; i++) {
        const int peer = (rank + i) % place.size;
        const lsi_pull out = lsi_pull_of(&place, peer, rank);
        const lsi_pull in = lsi_pull_of(&place, rank, peer);
        if (out.bytes != 0)
            lsi_message_send(
                op->group, &messages(op)[2 * peer], LSI_CHANNEL_COLLECTIVE,
                (lsi_buffer){sent_from(op) + out.from, out.bytes, LS_U8}, peer);
        if (in.bytes != 0)
            lsi_message_receive(op->group, &messages(op)[2 * peer + 1],
                                LSI_CHANNEL_COLLECTIVE,
                                (lsi_buffer){(unsigned char *)op->recv + in.to,
                                             in.bytes, LS_U8},
                                peer);
    }
}

ls_status lsi_move_pairs(lsi_collective *op)
{
    if (op->step == 0) {
        post(op);
        lsi_move_own(op);
        op->step = 1;
    }
    LS_TRY(lsi_messages_progress(op->group));
    for (int r = 0; r < 2 * op->group->size; r++)
        if (!messages(op)[r].done)
            return LS_IN_PROGRESS;
    return LS_OK;
}

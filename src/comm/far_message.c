/*
 * Messages between ranks of different nodes: an envelope, then the data in
 * pieces that the wire can take. Both ends post them in the order of the
 * stream, so that they meet.
 */
#include "base/error.h"
#include "comm/far.h"

static int class_of(const ls_group *group, const lsi_stream *stream)
{
    const lsi_stream *first =
        group->streams[LSI_CHANNEL_COLLECTIVE][stream->receives];
    return stream == first + stream->peer ? LSI_CHANNEL_COLLECTIVE
                                          : LSI_CHANNEL_USER;
}

static size_t next_piece(const lsi_message *message)
{
    const size_t left = message->envelope.bytes - message->moved;
    return left < LSI_WIRE_PIECE ? left : LSI_WIRE_PIECE;
}

static ls_status post_piece(ls_group *group, const lsi_stream *stream,
                            lsi_message *message)
{
    const int tag = LSI_TAG_DATA + class_of(group, stream);
    unsigned char *data = message->data + message->moved;
    const size_t bytes = next_piece(message);
    return stream->receives ? lsi_far_receive(group, &message->body, data,
                                              bytes, stream->peer, tag)
                            : lsi_far_send(group, &message->body, data, bytes,
                                           stream->peer, tag);
}

static ls_status post_head(ls_group *group, const lsi_stream *stream,
                           lsi_message *message)
{
    const int tag = LSI_TAG_ENVELOPE + class_of(group, stream);
    message->posted = true;
    return stream->receives
               ? lsi_far_receive(group, &message->head, &message->arrived,
                                 sizeof(lsi_envelope), stream->peer, tag)
               : lsi_far_send(group, &message->head, &message->envelope,
                              sizeof(lsi_envelope), stream->peer, tag);
}

/* The sender need not wait for its envelope to arrive. */
static ls_status move_head(ls_group *group, const lsi_stream *stream,
                           lsi_message *message)
{
    if (!message->posted)
        LS_TRY(post_head(group, stream, message));
    if (stream->receives) {
        const ls_status status = lsi_far_test(group, &message->head);
        if (status != LS_OK)
            return status;
        LS_TRY(lsi_check_envelope(group, stream, message, &message->arrived));
    }
    message->opened = true;
    return message->envelope.bytes == 0 ? LS_OK
                                        : post_piece(group, stream, message);
}

ls_status lsi_far_move(ls_group *group, const lsi_stream *stream,
                       lsi_message *message)
{
    if (!message->opened) {
        const ls_status status = move_head(group, stream, message);
        if (status != LS_OK)
            return status;
    }
    while (message->moved < message->envelope.bytes) {
        const ls_status status = lsi_far_test(group, &message->body);
        if (status != LS_OK)
            return status;
        message->moved += next_piece(message);
        if (message->moved < message->envelope.bytes)
            LS_TRY(post_piece(group, stream, message));
    }
    return lsi_far_test(group, &message->head);
}

/*
 * Messages between ranks of different nodes: an envelope, then the data as a
 * parcel. Both ends post them in the order of the stream, so that they meet.
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

static void pack(const ls_group *group, const lsi_stream *stream,
                 lsi_message *message)
{
    message->body = (lsi_parcel){.data = message->data,
                                 .bytes = message->envelope.bytes,
                                 .rank = stream->peer,
                                 .tag = LSI_TAG_DATA + class_of(group, stream),
                                 .receives = stream->receives,
                                 .flights = message->pieces,
                                 .room = LSI_MESSAGE_PIECES};
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
    pack(group, stream, message);
    return LS_OK;
}

ls_status lsi_far_move(ls_group *group, const lsi_stream *stream,
                       lsi_message *message)
{
    ls_status status =
        message->opened ? LS_OK : move_head(group, stream, message);
    if (status == LS_OK)
        status = lsi_parcel_move(group, &message->body);
    return status == LS_OK ? lsi_far_test(group, &message->head) : status;
}

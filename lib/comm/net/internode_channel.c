/*
 * Messages between ranks of different nodes: an envelope, then the data as a
 * bulk message. Both ends post them in the order of the stream, so that they
 * match.
 *
 * MPI accepts a message before any rank has asked for it, and keeps it in the
 * receiver's memory. So each end counts the bytes that have gone through the
 * stream. Whenever the receiver's count has grown by LSI_CREDIT_BYTES, it sends
 * an empty message the other way: a credit. A sender with too few credits waits
 * for the next one before it goes on.
 */
#include <assert.h>
#include <stdint.h>

#include "base/error.h"
#include "comm/health/mismatch.h"
#include "comm/net/internode.h"

/* Approximate bytes that a short message costs the MPI that keeps it. */
enum { ENVELOPE_CHARGE = 4096 };

static int class_of(const ls_group *group, const lsi_stream *stream)
{
    const lsi_stream *first =
        group->streams.of[LSI_CHANNEL_COLLECTIVE][stream->receives];
    return stream == first + stream->peer ? LSI_CHANNEL_COLLECTIVE
                                          : LSI_CHANNEL_USER;
}

/* ---- credits ------------------------------------------------------------- */

/* The bytes of a credit; the same on all ranks of the group. */
static uint64_t credit_of(const ls_group *group)
{
    return group->streams.credit_bytes > 0 ? group->streams.credit_bytes
                                           : LSI_CREDIT_BYTES;
}

/* The position in the stream up to which the sender may begin a message. */
static uint64_t limit_of(const ls_group *group, const lsi_stream *stream)
{
    return (stream->credits + 2) * credit_of(group);
}

/* The position in the stream where the data of its first message begins. */
static uint64_t data_begin(const lsi_stream *stream)
{
    return stream->position + ENVELOPE_CHARGE;
}

/* Fragments that may be posted. The first may go with its envelope. */
static size_t fragments_within(const ls_group *group, const lsi_stream *stream,
                               size_t fragments)
{
    const uint64_t begin = data_begin(stream), limit = limit_of(group, stream);
    const uint64_t some = limit <= begin + LSI_WIRE_PIECE
                              ? 1
                              : (limit - begin - 1) / LSI_WIRE_PIECE + 1;
    return some < fragments ? (size_t)some : fragments;
}

static ls_status receive_credit(ls_group *group, lsi_stream *stream,
                                lsi_message *message)
{
    if (!message->wire.asked)
        LS_TRY(lsi_internode_receive(group, &message->wire.credit, NULL, 0,
                                     stream->peer,
                                     LSI_TAG_CREDIT + class_of(group, stream)));
    message->wire.asked = true;
    LS_TRY(lsi_internode_test(group, &message->wire.credit));
    message->wire.asked = false;
    stream->credits++;
    return LS_OK;
}

/* Sends credits for all arrived bytes; done once these are sent. */
static ls_status give_credits(ls_group *group, lsi_stream *stream,
                              lsi_message *message)
{
    const size_t arrived = message->wire.body.arrived * LSI_WIRE_PIECE;
    const size_t bytes = message->envelope.bytes;
    const uint64_t reached =
        data_begin(stream) + (arrived < bytes ? arrived : bytes);
    for (;;) {
        const ls_status status =
            lsi_internode_test(group, &message->wire.credit);
        if (status != LS_OK ||
            reached < (stream->credits + 1) * credit_of(group))
            return status;
        stream->credits++;
        LS_TRY(lsi_internode_send(group, &message->wire.credit, NULL, 0,
                                  stream->peer,
                                  LSI_TAG_CREDIT + class_of(group, stream)));
    }
}

/* ---- messages ------------------------------------------------------------ */

static void pack(const ls_group *group, const lsi_stream *stream,
                 lsi_message *message)
{
    message->wire.body =
        (lsi_bulk){.data = message->data,
                   .bytes = message->envelope.bytes,
                   .rank = stream->peer,
                   .tag = LSI_TAG_DATA + class_of(group, stream),
                   .receives = stream->receives,
                   .requests = message->wire.fragments,
                   .room = LSI_MESSAGE_FRAGMENTS};
}

/* Whether a rank can have sent it; its fields size allocations. */
static bool is_sound(const lsi_wire_request *head, const lsi_envelope *envelope)
{
    const size_t size = ls_dtype_size((ls_dtype)envelope->dtype);
    return head->bytes == sizeof(*envelope) && envelope->dtype <= INT32_MAX &&
           size != 0 && envelope->count <= PTRDIFF_MAX / size &&
           envelope->bytes == envelope->count * size &&
           envelope->tag <= INT32_MAX;
}

/* An envelope belongs to the stream until its receiver is known. */
static ls_status peek(ls_group *group, lsi_stream *stream,
                      lsi_envelope *envelope)
{
    if (!stream->head_posted)
        LS_TRY(lsi_internode_receive(
            group, &stream->head, &stream->envelope, sizeof(lsi_envelope),
            stream->peer, LSI_TAG_ENVELOPE + class_of(group, stream)));
    stream->head_posted = true;
    if (!stream->head_arrived) {
        LS_TRY(lsi_internode_test(group, &stream->head));
        if (!is_sound(&stream->head, &stream->envelope))
            return lsi_internode_garbled(group, stream->peer);
    }
    stream->head_arrived = true;
    *envelope = stream->envelope;
    return LS_OK;
}

static void claim_head(lsi_stream *stream, lsi_message *message)
{
    assert(stream->receives && !message->wire.posted);
    message->wire.posted = true;
    message->wire.arrived = stream->envelope;
    stream->head_posted = stream->head_arrived = false;
}

static ls_status post_head(ls_group *group, lsi_stream *stream,
                           lsi_message *message)
{
    const int tag = LSI_TAG_ENVELOPE + class_of(group, stream);
    assert(!message->wire.posted);
    while (!stream->receives && stream->position >= limit_of(group, stream)) {
        LS_TRY(receive_credit(group, stream, message));
    }
    message->wire.posted = true;
    return stream->receives
               ? lsi_internode_receive(group, &message->wire.head,
                                       &message->wire.arrived,
                                       sizeof(lsi_envelope), stream->peer, tag)
               : lsi_internode_send(group, &message->wire.head,
                                    &message->envelope, sizeof(lsi_envelope),
                                    stream->peer, tag);
}

/* The sender need not wait for its envelope to arrive. */
static ls_status move_head(ls_group *group, lsi_stream *stream,
                           lsi_message *message)
{
    ls_status status = LS_OK;
    if (stream->head_arrived)
        claim_head(stream, message);
    if (!message->wire.posted)
        status = post_head(group, stream, message);
    if (status == LS_OK && stream->receives) {
        const bool waits = message->wire.head.pending;
        status = lsi_internode_test(group, &message->wire.head);
        if (status == LS_OK && waits &&
            !is_sound(&message->wire.head, &message->wire.arrived))
            status = lsi_internode_garbled(group, stream->peer);
        if (status == LS_OK)
            status = lsi_check_envelope(group, stream, message,
                                        &message->wire.arrived);
    }
    if (status != LS_OK)
        return status;
    message->opened = true;
    pack(group, stream, message);
    return LS_OK;
}

static ls_status send_body(ls_group *group, lsi_stream *stream,
                           lsi_message *message)
{
    lsi_bulk *body = &message->wire.body;
    const size_t fragments = lsi_bulk_fragments(body->bytes);
    for (;;) {
        body->held = fragments - fragments_within(group, stream, fragments);
        ls_status status = lsi_bulk_move(group, body);
        if (status != LS_IN_PROGRESS || body->held == 0 ||
            body->posted + body->held < fragments)
            return status;
        status = receive_credit(group, stream, message);
        if (status != LS_OK)
            return status;
    }
}

static ls_status receive_body(ls_group *group, lsi_stream *stream,
                              lsi_message *message)
{
    const ls_status status = lsi_bulk_move(group, &message->wire.body);
    if (status != LS_OK && status != LS_IN_PROGRESS)
        return status;
    const ls_status given = give_credits(group, stream, message);
    return given == LS_OK ? status : given;
}

static ls_status move(ls_group *group, lsi_stream *stream, lsi_message *message)
{
    ls_status status =
        message->opened ? LS_OK : move_head(group, stream, message);
    if (status == LS_OK)
        status = stream->receives ? receive_body(group, stream, message)
                                  : send_body(group, stream, message);
    if (status == LS_OK)
        status = lsi_internode_test(group, &message->wire.head);
    if (status == LS_OK)
        stream->position = data_begin(stream) + message->envelope.bytes;
    return status;
}

/* Other ranks, or the wire, report its death. */
static bool is_alive(const ls_group *group, int rank)
{
    (void)group, (void)rank;
    return true;
}

const lsi_channel_kind lsi_channel_wire = {
    .name = "wire", .move = move, .peek = peek, .alive = is_alive};

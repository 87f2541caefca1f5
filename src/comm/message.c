/*
 * A stream carries, for each message, an envelope and then the data, padded to
 * UNIT bytes so that an envelope never wraps around the end of the ring.
 * The sender writes as far as there is room and the receiver reads as far as
 * there is something, so a message may be larger than the ring.
 *
 * `head` and `tail` count bytes and never go back. Each is written by one side
 * (after its plain stores or loads of the data) and read by the other.
 */
#include "comm/message.h"

#include <string.h>

#include "base/error.h"
#include "comm/copy.h"
#include "comm/failure.h"
#include "comm/internode.h"
#include "comm/recorder.h"
#include "comm/sleep.h"

enum { UNIT = sizeof(lsi_envelope) };

/* Moving in portions lets both sides work at once. */
enum { PORTION = 16 * 1024 };

static size_t padded(size_t bytes)
{
    return (bytes + UNIT - 1) / UNIT * UNIT;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* ---- queues -------------------------------------------------------------- */

static void enqueue(ls_group *group, lsi_stream *stream, lsi_message *message)
{
    if (stream->first == NULL)
        stream->first = message;
    else
        stream->last->next = message;
    stream->last = message;
    if (!stream->active) {
        stream->active = true;
        stream->next_active = group->streams.active;
        group->streams.active = stream;
    }
}

static void prepare(lsi_message *message, lsi_buffer buffer)
{
    const size_t bytes = buffer.count * ls_dtype_size(buffer.dtype);
    *message = (lsi_message){
        .data = buffer.data,
        .envelope = {.dtype = (uint64_t)buffer.dtype,
                     .count = buffer.count,
                     .bytes = bytes},
    };
}

void lsi_message_send(ls_group *group, lsi_message *message, int class_,
                      lsi_buffer buffer, int peer)
{
    prepare(message, buffer);
    group->counters->messages++;
    group->counters->bytes_sent +=
        peer == group->rank ? 0 : message->envelope.bytes;
    enqueue(group, &group->streams.of[class_][0][peer], message);
}

void lsi_message_receive(ls_group *group, lsi_message *message, int class_,
                         lsi_buffer buffer, int peer)
{
    prepare(message, buffer);
    enqueue(group, &group->streams.of[class_][1][peer], message);
}

/* ---- the ring ------------------------------------------------------------ */

static void ring_write(const ls_group *group, lsi_channel *channel,
                       uint64_t position, const void *data, size_t bytes)
{
    const size_t capacity = group->memory.layout.channel_bytes;
    const size_t at = (size_t)(position % capacity);
    const size_t first = least(bytes, capacity - at);
    lsi_copy_out(channel->data + at, data, first);
    lsi_copy_out(channel->data, (const unsigned char *)data + first,
                 bytes - first);
}

static void ring_read(const ls_group *group, const lsi_channel *channel,
                      uint64_t position, void *data, size_t bytes)
{
    const size_t capacity = group->memory.layout.channel_bytes;
    const size_t at = (size_t)(position % capacity);
    const size_t first = least(bytes, capacity - at);
    memcpy(data, channel->data + at, first);
    memcpy((unsigned char *)data + first, channel->data, bytes - first);
}

/* Bytes that this end may write or read now: acquires the other's position. */
static size_t available(const ls_group *group, const lsi_stream *stream)
{
    if (stream->receives)
        return (size_t)(atomic_load(&stream->channel->head) - stream->position);
    return group->memory.layout.channel_bytes -
           (size_t)(stream->position - atomic_load(&stream->channel->tail));
}

static void advance(ls_group *group, lsi_stream *stream, size_t bytes)
{
    stream->position += bytes;
    group->activity++;
    /* Releases the bytes that were written, or the room they were read from. */
    atomic_store(stream->receives ? &stream->channel->tail
                                  : &stream->channel->head,
                 stream->position);
    lsi_wake_rank(group, stream->peer);
}

/* ---- moving -------------------------------------------------------------- */

static uint64_t print_of(const lsi_envelope *envelope, lsi_operation operation)
{
    const lsi_call call = {.operation = operation,
                           .dtype = (ls_dtype)envelope->dtype,
                           .count = envelope->count};
    return lsi_fingerprint_of(&call).what;
}

ls_status lsi_check_envelope(ls_group *group, const lsi_stream *stream,
                             const lsi_message *message,
                             const lsi_envelope *arrived)
{
    const lsi_envelope *own = &message->envelope;
    if (own->dtype == arrived->dtype && own->count == arrived->count)
        return LS_OK;
    lsi_post_failure(group,
                     &(lsi_failure){.status = LS_ERR_MISMATCH,
                                    .rank_a = stream->peer,
                                    .rank_b = group->rank,
                                    .what_a = print_of(arrived, LSI_OP_SEND),
                                    .count_a = arrived->count,
                                    .what_b = print_of(own, LSI_OP_RECV),
                                    .count_b = own->count});
    return lsi_report_failure(group);
}

/* Whether the envelope has moved now. */
static ls_status move_envelope(ls_group *group, lsi_stream *stream,
                               lsi_message *message)
{
    if (available(group, stream) < UNIT)
        return LS_IN_PROGRESS;
    if (stream->receives) {
        lsi_envelope arrived;
        ring_read(group, stream->channel, stream->position, &arrived, UNIT);
        LS_TRY(lsi_check_envelope(group, stream, message, &arrived));
        stream->position += UNIT; /* announced with the first data */
    } else {
        ring_write(group, stream->channel, stream->position, &message->envelope,
                   UNIT);
        stream->position += UNIT;
    }
    message->opened = true;
    if (message->envelope.bytes == 0)
        advance(group, stream, 0);
    return LS_OK;
}

/* Moves a portion of the data; false if there is no room or nothing yet. */
static bool move_data(ls_group *group, lsi_stream *stream, lsi_message *message)
{
    const size_t left = message->envelope.bytes - message->moved;
    const size_t room = available(group, stream) / UNIT * UNIT;
    const size_t bytes = least(least(left, room), PORTION);
    if (bytes == 0)
        return false;
    if (stream->receives)
        ring_read(group, stream->channel, stream->position,
                  message->data + message->moved, bytes);
    else
        ring_write(group, stream->channel, stream->position,
                   message->data + message->moved, bytes);
    message->moved += bytes;
    advance(group, stream, padded(bytes));
    return true;
}

static ls_status move_message(ls_group *group, lsi_stream *stream,
                              lsi_message *message)
{
    if (lsi_on_other_node(group, stream->peer))
        return lsi_internode_move(group, stream, message);
    if (!message->opened) {
        const ls_status status = move_envelope(group, stream, message);
        if (status != LS_OK)
            return status;
    }
    while (message->moved < message->envelope.bytes)
        if (!move_data(group, stream, message))
            return LS_IN_PROGRESS;
    return LS_OK;
}

static ls_status move_stream(ls_group *group, lsi_stream *stream)
{
    while (stream->first != NULL) {
        lsi_message *message = stream->first;
        const ls_status status = move_message(group, stream, message);
        if (status != LS_OK)
            return status;
        stream->first = message->next;
        if (message->record != 0)
            lsi_record_message_end(group, message);
        message->done = true;
        group->activity++;
    }
    return LS_OK;
}

/* Tells a table of who is where what this rank waits for. */
static void announce(ls_group *group)
{
    const lsi_stream *stream = group->streams.active;
    const uint64_t word = stream == NULL ? 0
                                         : (uint64_t)(stream->peer + 1) << 1 |
                                               (stream->receives ? 1 : 0);
    _Atomic uint64_t *place = &lsi_member_of(group, group->rank)->waiting_for;
    if (atomic_load_explicit(place, memory_order_relaxed) != word)
        atomic_store_explicit(place, word, memory_order_relaxed);
}

ls_status lsi_messages_progress(ls_group *group)
{
    lsi_stream **link = &group->streams.active;
    while (*link != NULL) {
        lsi_stream *stream = *link;
        const ls_status status = move_stream(group, stream);
        if (status == LS_OK) {
            stream->active = false;
            *link = stream->next_active;
        } else if (status == LS_IN_PROGRESS) {
            link = &stream->next_active;
        } else {
            return status;
        }
    }
    announce(group);
    return LS_OK;
}

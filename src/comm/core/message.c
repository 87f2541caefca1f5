/*
 * A stream is a queue of messages to, or from, one rank. Its channel moves the
 * first of them.
 */
#include "comm/core/message.h"

#include "comm/health/recorder.h"
#include "comm/state/channels.h"

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

/* ---- moving -------------------------------------------------------------- */

static ls_status move_stream(ls_group *group, lsi_stream *stream)
{
    while (stream->first != NULL) {
        lsi_message *message = stream->first;
        const ls_status status =
            lsi_channel_to(group, stream->peer)->move(group, stream, message);
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

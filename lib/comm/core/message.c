/*
 * A stream is a queue of messages to, or from, one rank. Its channel moves the
 * first message.
 */
#include "comm/core/message.h"

#include <assert.h>

#include "base/error.h"
#include "comm/core/matching.h"
#include "comm/health/recorder.h"
#include "comm/state/channels.h"
#include "comm/state/forks.h"

/* ---- queues -------------------------------------------------------------- */

static void enqueue(ls_group *group, lsi_stream *stream, lsi_message *message)
{
    lsi_message_append(&stream->queue, message);
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
    lsi_message_send_tag(group, message, class_, buffer,
                         (lsi_peer_tag){peer, 0});
}

void lsi_message_send_tag(ls_group *group, lsi_message *message, int class_,
                          lsi_buffer buffer, lsi_peer_tag to)
{
    const int peer = to.peer;
    assert(peer >= 0 && peer < group->size);
    prepare(message, buffer);
    message->envelope.tag = (uint64_t)to.tag;
    group->counters->messages++;
    group->counters->bytes_sent +=
        peer == group->rank ? 0 : message->envelope.bytes;
    enqueue(group, &group->streams.of[class_][0][peer], message);
}

void lsi_message_receive(ls_group *group, lsi_message *message, int class_,
                         lsi_buffer buffer, int peer)
{
    assert(!group->streams.of[class_][1][peer].matches);
    prepare(message, buffer);
    enqueue(group, &group->streams.of[class_][1][peer], message);
}

void lsi_message_ask(ls_group *group, lsi_message *message, lsi_buffer buffer,
                     lsi_peer_tag from)
{
    prepare(message, buffer);
    message->peer = from.peer;
    message->tag = from.tag;
    lsi_matching_ask(group, message);
}

/* A receive that has begun is in its stream; other receives wait in a list. */
void lsi_message_withdraw(ls_group *group, lsi_message *message)
{
    const bool receives = message->turn != 0;
    if (message->done)
        return;
    assert(lsi_has_failed(group) || lsi_is_inherited(group));
    if (receives)
        lsi_matching_withdraw(group, message);
    if (message->peer != LS_ANY_RANK)
        (void)lsi_message_strike(
            &group->streams.of[LSI_CHANNEL_USER][receives][message->peer].queue,
            message);
}

/* ---- moving -------------------------------------------------------------- */

static void finish(ls_group *group, lsi_stream *stream, lsi_message *message)
{
    assert(message->opened && !message->done);
    group->activity++;
    stream->queue.first = stream->matches ? NULL : message->next;
    if (message->kept) {
        lsi_matching_complete(group, message);
        return;
    }
    if (message->record != 0)
        lsi_record_message_end(group, message);
    message->done = true;
}

static ls_status move_stream(ls_group *group, lsi_stream *stream)
{
    for (;;) {
        if (stream->queue.first == NULL && stream->matches) {
            LS_TRY(lsi_matching_next(group, stream, false));
        }
        lsi_message *message = stream->queue.first;
        if (message == NULL)
            return LS_OK;
        const ls_status status =
            lsi_channel_to(group, stream->peer)->move(group, stream, message);
        if (status != LS_OK)
            return status;
        finish(group, stream, message);
    }
}

/* Publishes in shared memory which rank this rank waits for. */
static void announce(ls_group *group)
{
    const lsi_stream *stream = lsi_stream_awaited(group);
    const uint64_t word = stream == NULL ? 0
                                         : (uint64_t)(stream->peer + 1) << 1 |
                                               (stream->receives ? 1 : 0);
    _Atomic uint64_t *place = &lsi_member_of(group, group->rank)->waiting_for;
    if (atomic_load_explicit(place, memory_order_relaxed) != word)
        atomic_store_explicit(place, word, memory_order_relaxed);
}

static ls_status move_all(ls_group *group)
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
    return LS_OK;
}

ls_status lsi_messages_progress(ls_group *group)
{
    uint64_t activity;
    do {
        activity = group->activity;
        LS_TRY(lsi_matching_serve(group));
        LS_TRY(move_all(group));
    } while (group->activity != activity && group->streams.any.first != NULL);
    announce(group);
    return LS_OK;
}

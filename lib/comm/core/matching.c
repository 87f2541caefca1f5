/*
 * A receive that names a rank waits in that rank's stream. A receive from any
 * rank waits in a list of the group. The next envelope of a stream goes to the
 * oldest receive that it matches. If it matches none, although receives wait
 * for messages of its rank, the message is kept, so that they get the messages
 * after it. A message that no receive waits for stays with its sender.
 *
 * Receives from any rank are served in turns. The ranks are checked one after
 * the other, from the one after the rank that was served last.
 */
#include "comm/core/matching.h"

#include <assert.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "comm/health/failure.h"
#include "comm/health/mismatch.h"
#include "comm/health/recorder.h"
#include "comm/state/channels.h"

/* ---- streams ------------------------------------------------------------- */

static lsi_stream *stream_from(const ls_group *group, int peer)
{
    return &group->streams.of[LSI_CHANNEL_USER][1][peer];
}

static void activate(ls_group *group, lsi_stream *stream)
{
    if (stream->active)
        return;
    stream->active = true;
    stream->next_active = group->streams.active;
    group->streams.active = stream;
}

/* Activates the streams from a rank, or from all. */
static void activate_from(ls_group *group, int peer)
{
    for (int r = 0; r < group->size; r++)
        if (peer == LS_ANY_RANK || peer == r)
            activate(group, stream_from(group, r));
}

/* ---- receivers ----------------------------------------------------------- */

static bool tags_match(int wanted, uint64_t tag)
{
    return wanted == LS_ANY_TAG || (uint64_t)wanted == tag;
}

static lsi_message *first_of(const lsi_message_list *list, uint64_t tag)
{
    lsi_message *at = list->first;
    while (at != NULL && !tags_match(at->tag, tag))
        at = at->next;
    return at;
}

/* The oldest receive that matches a message from a rank, or NULL. */
static lsi_message *receiver_of(const ls_group *group, int peer, uint64_t tag)
{
    lsi_message *one = first_of(&stream_from(group, peer)->waiting, tag);
    lsi_message *any = first_of(&group->streams.any, tag);
    if (one == NULL || any == NULL)
        return one == NULL ? any : one;
    return one->turn < any->turn ? one : any;
}

static bool is_for_any(const lsi_message *message)
{
    return message->peer == LS_ANY_RANK;
}

/* Where a receive waits for its message. */
static lsi_message_list *list_of(ls_group *group, const lsi_message *message)
{
    return is_for_any(message) ? &group->streams.any
                               : &stream_from(group, message->peer)->waiting;
}

/* Notes that a receive has got its message. */
static void settle(ls_group *group, lsi_message *message, int peer,
                   uint64_t tag)
{
    assert(is_for_any(message) || message->peer == peer);
    assert(tags_match(message->tag, tag));
    (void)lsi_message_strike(list_of(group, message), message);
    if (is_for_any(message))
        group->streams.served = peer;
    message->peer = peer;
    message->tag = (int)tag;
    lsi_record_message_peer(group, message);
}

void lsi_matching_ask(ls_group *group, lsi_message *message)
{
    assert(message->turn == 0 && !message->done);
    message->turn = ++group->streams.turns;
    lsi_message_append(list_of(group, message), message);
    activate_from(group, message->peer);
    group->streams.fresh = true;
}

void lsi_matching_withdraw(ls_group *group, lsi_message *message)
{
    (void)lsi_message_strike(list_of(group, message), message);
}

/* ---- probes -------------------------------------------------------------- */

void lsi_matching_probe(ls_group *group, lsi_probe *probe)
{
    assert((probe == NULL) != (group->streams.probe == NULL));
    group->streams.probe = probe;
    if (probe == NULL)
        return;
    activate_from(group, probe->peer);
    group->streams.fresh = true;
}

/* Whether a probe still looks for a message that this rank may send. */
static bool is_probed(const ls_group *group, int peer)
{
    const lsi_probe *probe = group->streams.probe;
    return probe != NULL && !probe->found &&
           (probe->peer == LS_ANY_RANK || probe->peer == peer);
}

static bool find_by_probe(ls_group *group, int peer,
                          const lsi_envelope *envelope)
{
    lsi_probe *probe = group->streams.probe;
    if (!is_probed(group, peer) || !tags_match(probe->tag, envelope->tag))
        return false;
    probe->found = true;
    probe->envelope = *envelope;
    probe->peer = peer;
    group->activity++;
    return true;
}

/* ---- kept messages ------------------------------------------------------- */

/*
 * Fails the group: neither this rank's operations nor those that other ranks
 * await can go on.
 */
static ls_status fail_to_keep(ls_group *group, const lsi_stream *stream,
                              const lsi_envelope *envelope, ls_status status)
{
    lsi_post_failure(group, &(lsi_failure_record){.status = status,
                                                  .rank_a = group->rank,
                                                  .rank_b = stream->peer,
                                                  .count_a = envelope->bytes});
    const ls_status first = lsi_report_failure(group);
    return first != LS_OK ? first : status;
}

static ls_status keep(ls_group *group, const lsi_stream *stream,
                      const lsi_envelope *envelope, lsi_message **out)
{
    void *block = NULL;
    const ls_status status =
        lsi_alloc(&block, sizeof(lsi_message) + envelope->bytes, LS_MEMORY_COMM,
                  "an early message without a posted receive");
    if (status != LS_OK)
        return fail_to_keep(group, stream, envelope, status);
    *out = block;
    **out = (lsi_message){.data = (unsigned char *)block + sizeof(lsi_message),
                          .envelope = *envelope,
                          .peer = stream->peer,
                          .tag = (int)envelope->tag,
                          .kept = true};
    return LS_OK;
}

/* Gives a message that has arrived in full to its receive. */
static void deliver(ls_group *group, lsi_message *kept)
{
    lsi_message *to = kept->claimed_by;
    assert(kept->done && to->envelope.bytes == kept->envelope.bytes);
    if (kept->envelope.bytes != 0)
        memcpy(to->data, kept->data, kept->envelope.bytes);
    if (to->record != 0)
        lsi_record_message_end(group, to);
    to->done = true;
    group->activity++;
    (void)lsi_message_strike(&group->streams.kept, kept);
    lsi_free(kept);
}

void lsi_matching_complete(ls_group *group, lsi_message *kept)
{
    assert(kept->kept && !kept->done);
    kept->done = true;
    if (kept->claimed_by != NULL)
        deliver(group, kept);
}

/* Gives kept messages to the receives that have been posted since. */
static ls_status serve_kept(ls_group *group)
{
    lsi_message *next;
    if (!group->streams.fresh)
        return LS_OK;
    group->streams.fresh = false;
    for (lsi_message *at = group->streams.kept.first; at != NULL; at = next) {
        const int peer = at->peer;
        next = at->next;
        if (at->claimed_by != NULL)
            continue;
        lsi_message *to = receiver_of(group, peer, at->envelope.tag);
        if (to == NULL) {
            (void)find_by_probe(group, peer, &at->envelope);
            continue;
        }
        LS_TRY(lsi_check_envelope(group, stream_from(group, peer), to,
                                  &at->envelope));
        settle(group, to, peer, at->envelope.tag);
        at->claimed_by = to;
        if (at->done)
            deliver(group, at);
    }
    return LS_OK;
}

void lsi_matching_forget(ls_group *group)
{
    while (group->streams.kept.first != NULL) {
        lsi_message *kept = group->streams.kept.first;
        (void)lsi_message_strike(&group->streams.kept, kept);
        lsi_free(kept);
    }
}

/* ---- arriving messages --------------------------------------------------- */

/* Whether a receive or a probe waits for a message that this rank may send. */
static bool is_wanted(const ls_group *group, const lsi_stream *stream)
{
    return stream->waiting.first != NULL || group->streams.any.first != NULL ||
           is_probed(group, stream->peer);
}

ls_status lsi_matching_next(ls_group *group, lsi_stream *stream, bool any)
{
    lsi_envelope envelope;
    assert(stream->matches && stream->queue.first == NULL);
    if (!is_wanted(group, stream))
        return LS_OK;
    const ls_status status =
        lsi_channel_to(group, stream->peer)->peek(group, stream, &envelope);
    if (status != LS_OK)
        return status;
    lsi_message *to = receiver_of(group, stream->peer, envelope.tag);
    if (to != NULL && is_for_any(to) && !any)
        return LS_IN_PROGRESS;
    if (to == NULL && find_by_probe(group, stream->peer, &envelope))
        return LS_IN_PROGRESS;
    if (to == NULL) {
        LS_TRY(keep(group, stream, &envelope, &to));
        lsi_message_append(&group->streams.kept, to);
    } else {
        settle(group, to, stream->peer, envelope.tag);
    }
    stream->queue.first = to;
    return LS_OK;
}

ls_status lsi_matching_serve(ls_group *group)
{
    const int size = group->size, served = group->streams.served;
    LS_TRY(serve_kept(group));
    for (int i = 1; i <= size && group->streams.any.first != NULL; i++) {
        lsi_stream *stream = stream_from(group, (served + i) % size);
        if (stream->queue.first != NULL)
            continue;
        const ls_status status = lsi_matching_next(group, stream, true);
        if (status != LS_OK && status != LS_IN_PROGRESS)
            return status;
    }
    return LS_OK;
}

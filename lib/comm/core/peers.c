#include "comm/core/peers.h"

#include <assert.h>

#include "base/error.h"
#include "comm/core/engine.h"
#include "comm/health/awaited.h"
#include "comm/health/failure.h"
#include "comm/health/mismatch.h"
#include "comm/state/channels.h"

static ls_status post_dead(ls_group *group, int rank)
{
    assert(rank != group->rank);
    lsi_post_failure(
        group, &(lsi_failure_record){.status = LS_ERR_PEER_DEAD,
                                     .rank_a = rank,
                                     .sequence = group->queue.completed + 1});
    return lsi_report_failure(group);
}

/*
 * Whether this rank has yet to receive a user's message of a rank of another
 * node that has left. If the rank has sent it any, `end` arrives, too.
 */
static bool has_messages(const ls_group *group, int rank)
{
    const lsi_stream *from = &group->streams.of[LSI_CHANNEL_USER][1][rank];
    const int own = group->channels.local->rank;
    const uint64_t sent_to =
        atomic_load(&lsi_member_of(group, rank)->sent_to[own / 64]);
    return (sent_to >> own % 64 & 1) != 0 &&
           (from->end == 0 || from->position < from->end);
}

/* Whether all but this rank have left, and none of their messages arrives. */
static bool is_alone(const ls_group *group)
{
    for (int r = 0; r < group->size; r++)
        if (r != group->rank &&
            (atomic_load(&lsi_member_of(group, r)->presence) != LSI_LEFT ||
             has_messages(group, r)))
            return false;
    return true;
}

/*
 * Whether a rank of another node has completed the collective that this rank is
 * in, and then left. All that it has sent for it arrives: its arrival by way of
 * the first rank of this node, if that rank lives, and its data.
 */
static bool has_done_its_part(const ls_group *group, int rank)
{
    const lsi_collective *op = group->queue.first;
    return op != NULL &&
           op->sequence <= atomic_load(&lsi_member_of(group, rank)->last);
}

/*
 * Whether a stream's first message arrives although its peer has left. A user's
 * message to a rank that has received it is sent already.
 */
static bool is_served(const ls_group *group, const lsi_stream *stream)
{
    const int rank = stream->peer;
    if (stream ==
        &group->streams.of[LSI_CHANNEL_COLLECTIVE][stream->receives][rank])
        return has_done_its_part(group, rank);
    return stream->receives && has_messages(group, rank);
}

/*
 * Whether this rank waits for a rank that has left, or for a message from any
 * rank once all others have left.
 */
static bool is_awaited(const ls_group *group, int rank)
{
    const lsi_streams *streams = &group->streams;
    const lsi_probe *probe = streams->probe;
    for (const lsi_stream *s = streams->active; s != NULL; s = s->next_active)
        if (s->peer == rank &&
            (s->queue.first != NULL || s->waiting.first != NULL) &&
            !is_served(group, s))
            return true;
    if (probe != NULL && probe->peer == rank && !has_messages(group, rank))
        return true;
    if ((streams->any.first != NULL || probe != NULL) && is_alone(group))
        return true;
    return !has_done_its_part(group, rank) && lsi_is_behind(group, rank);
}

/* Checks all ranks that have arrived: a late rank must not hide a mismatch. */
static ls_status check_calls(ls_group *group)
{
    lsi_collective *op = group->queue.first;
    if (op == NULL || op->state != LSI_COLLECTIVE_ENTERED)
        return LS_OK;
    for (int r = 0; r < group->size; r++) {
        const lsi_cell *cell = lsi_cell_of(group, op->sequence, r);
        if (atomic_load(&cell->stamp) >> LSI_PHASE_BITS == op->sequence)
            LS_TRY(lsi_check_call(op, r));
    }
    return LS_OK;
}

ls_status lsi_check_peers(ls_group *group)
{
    LS_TRY(check_calls(group));
    for (int r = 0; r < group->size; r++) {
        const lsi_member *member = lsi_member_of(group, r);
        const bool left = atomic_load(&member->presence) == LSI_LEFT;
        if (r == group->rank)
            continue;
        if (left ? !is_awaited(group, r)
                 : lsi_channel_to(group, r)->alive(group, r))
            continue;
        /* The rank may have done its part, or left properly, just before. */
        const uint64_t activity = group->activity;
        LS_TRY(lsi_progress(group));
        if (group->activity == activity &&
            (left || atomic_load(&member->presence) != LSI_LEFT))
            return post_dead(group, r);
    }
    return LS_OK;
}

ls_status lsi_time_out(ls_group *group, bool got_sigterm)
{
    const lsi_collective *op = group->queue.first;
    lsi_awaited_note(group);
    lsi_post_failure(group, &(lsi_failure_record){
                                .status = LS_ERR_TIMEOUT,
                                .rank_a = group->rank,
                                .rank_b = lsi_awaited_last(group),
                                .got_sigterm = got_sigterm,
                                .sequence = op == NULL ? 0 : op->sequence});
    return lsi_report_failure(group);
}

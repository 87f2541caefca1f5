#include "comm/health/awaited.h"

#include <stdio.h>

#include "comm/state/call.h"
#include "comm/state/channels.h"
#include "observe/live.h"

bool lsi_is_behind(const ls_group *group, int rank)
{
    const lsi_collective *op = group->queue.first;
    if (op == NULL)
        return false;
    if (op->state < LSI_COLLECTIVE_ENTERED) {
        const uint64_t free = op->sequence - LSI_CELLS;
        return lsi_shares_memory(group, rank)
                   ? atomic_load(&lsi_member_of(group, rank)->completed) < free
                   : group->queue.seen[rank] < free;
    }
    const lsi_cell *cell = lsi_cell_of(group, op->sequence, rank);
    return atomic_load(&cell->stamp) < lsi_stamp(op->sequence, op->phase);
}

/* ---- what this rank waits for -------------------------------------------- */

int lsi_first_behind(const ls_group *group, bool on_node)
{
    for (int r = 0; r < group->size; r++)
        if (r != group->rank && lsi_shares_memory(group, r) == on_node &&
            lsi_is_behind(group, r))
            return r;
    return -1;
}

/* -1 if this rank waits for no particular rank. */
static int awaited(const ls_group *group)
{
    const lsi_stream *stream = lsi_stream_awaited(group);
    if (stream != NULL)
        return stream->peer;
    const int late = lsi_first_behind(group, true);
    return late >= 0 ? late : lsi_channels_awaited(group);
}

/* ---- what the others know ------------------------------------------------ */

static _Atomic uint32_t *own_note(const ls_group *group)
{
    return &lsi_member_of(group, group->rank)->awaits;
}

void lsi_awaited_note(ls_group *group)
{
    atomic_store(own_note(group), (uint32_t)(awaited(group) + 1));
}

/* The call that this rank waits in; false if it is not known. */
static bool awaited_call(const ls_group *group, char *text, size_t bytes)
{
    const lsi_collective *op = group->queue.first;
    const lsi_message *message = lsi_message_awaited(group);
    if (op != NULL) {
        const int used =
            snprintf(text, bytes, "#%llu ", (unsigned long long)op->sequence);
        (void)lsi_call_text(&op->call, text + used, bytes - (size_t)used);
        return true;
    }
    if (message == NULL)
        return false;
    const lsi_call call = {.operation = message->operation,
                           .dtype = (ls_dtype)message->envelope.dtype,
                           .count = message->envelope.count};
    (void)lsi_call_text(&call, text, bytes);
    return true;
}

void lsi_awaited_show(const ls_group *group, lsi_patience *patience)
{
    char text[LSI_LIVE_CALL_BYTES];
    const lsi_live_waiting waiting = {
        .since_ns = patience->since_ns,
        .awaits = (int)atomic_load(own_note(group)) - 1,
        .tests = patience == &group->waiting.polling.patience,
        .call = text};
    if (awaited_call(group, text, sizeof(text)))
        lsi_live_waits(&waiting, &patience->shown);
}

void lsi_awaited_hide(lsi_patience *patience)
{
    if (patience->shown != 0)
        lsi_live_waited(&patience->shown);
}

void lsi_awaited_forget(ls_group *group, bool announced)
{
    if (atomic_exchange(own_note(group), 0) != 0 && announced)
        lsi_channels_announce_awaits(group);
}

int lsi_awaited_last(const ls_group *group)
{
    int last = group->rank;
    for (int steps = 0; steps < group->size; steps++) {
        const uint32_t next = atomic_load(&lsi_member_of(group, last)->awaits);
        if (next == 0)
            return last;
        last = (int)next - 1;
    }
    return (int)atomic_load(own_note(group)) - 1; /* a circle */
}

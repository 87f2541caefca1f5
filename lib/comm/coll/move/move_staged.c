/*
 * Broadcast, all-gather, gather, scatter and all-to-all of private memory,
 * through the windows. In each step a rank fills one half of its window with
 * its next chunk. If each reader needs other bytes, that is a chunk of each
 * slot. Meanwhile other ranks copy the chunk before from the other half.
 *
 * Steps: chunks + 2. Bytes that leave a rank: what others take.
 */
#include <string.h>

#include "comm/coll/move/move.h"
#include "comm/coll/window.h"
#include "comm/core/paths.h"
#include "comm/node/copy.h"

/* Chunk k of a pull; no bytes if the pull is shorter. */
static lsi_pull chunk_of(lsi_pull pull, size_t chunk, size_t k)
{
    if (k * chunk >= pull.bytes)
        return (lsi_pull){0, 0, 0};
    const size_t left = pull.bytes - k * chunk;
    return (lsi_pull){pull.from + k * chunk, pull.to + k * chunk,
                      left < chunk ? left : chunk};
}

/* The slot for a reader; all use the first if all need the same bytes. */
static int slot_of(int slots, int reader)
{
    return slots == 1 ? 0 : reader;
}

static void fill(const lsi_collective *op, size_t k)
{
    const lsi_place place = lsi_place_of(op);
    const int rank = op->group->rank, slots = lsi_pull_readers(&place);
    const size_t chunk = lsi_window_chunk(op->group, slots);
    bool filled = false;
    for (int r = 0; r < place.size && !(filled && slots == 1); r++) {
        const lsi_pull part = chunk_of(lsi_pull_of(&place, r, rank), chunk, k);
        if (r == rank || part.bytes == 0)
            continue;
        lsi_copy_out(
            lsi_window_slot(op->group, rank, k, slot_of(slots, r), chunk),
            (const unsigned char *)op->send + part.from, part.bytes);
        filled = true;
    }
}

static void copy_chunks(const lsi_collective *op, size_t k)
{
    const lsi_place place = lsi_place_of(op);
    const int rank = op->group->rank, slots = lsi_pull_readers(&place);
    const size_t chunk = lsi_window_chunk(op->group, slots);
    for (int r = 0; r < place.size; r++) {
        const lsi_pull part = chunk_of(lsi_pull_of(&place, rank, r), chunk, k);
        if (r == rank || part.bytes == 0)
            continue;
        memcpy((unsigned char *)op->recv + part.to,
               lsi_window_slot(op->group, r, k, slot_of(slots, rank), chunk),
               part.bytes);
    }
}

static void step(lsi_collective *op, size_t k)
{
    fill(op, k);
    if (k >= 1)
        copy_chunks(op, k - 1);
}

bool lsi_move_staged_ahead(lsi_collective *op)
{
    if (!lsi_window_free(op))
        return false;
    fill(op, 0);
    return true;
}

ls_status lsi_move_staged(lsi_collective *op)
{
    const lsi_place place = lsi_place_of(op);
    const size_t chunk = lsi_window_chunk(op->group, lsi_pull_readers(&place));
    const size_t most = lsi_pull_most(&place);
    const size_t chunks = (most + chunk - 1) / chunk;
    /* A root serves the other ranks first. */
    const bool last =
        lsi_operation_of(op->call.operation)->root == LSI_ROOT_SENDER;
    if (op->step == 0 && !last)
        lsi_move_own(op);
    const ls_status status = lsi_window_steps(op, chunks + 1, step);
    if (status == LS_OK) {
        if (last)
            lsi_move_own(op);
        lsi_count_moved(op);
    }
    return status;
}

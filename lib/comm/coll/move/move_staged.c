/*
 * Broadcast, all-gather, gather, scatter and all-to-all of private memory,
 * through the windows. In each step a rank fills one half of its window with
 * its next chunk. If each reader needs other bytes, that is a chunk of each
 * slot. Meanwhile other ranks copy the chunk before from the other half.
 *
 * If all ranks need the same bytes, and the ranks are in several domains
 * (schedule/domains.h), a chunk crosses into a domain once. One rank there, the
 * relay, copies it into a slot of its window, and the others of the domain copy
 * it from there, a step later.
 *
 * Steps: chunks + 1, and one more with relays. Bytes that leave a rank: those
 * that others take, directly or from a relay.
 */
#include <string.h>

#include "comm/coll/move/move.h"
#include "comm/coll/window.h"
#include "comm/core/paths.h"
#include "comm/node/copy.h"
#include "comm/schedule/domains.h"

enum { RELAYED_CHUNKS = 4 }; /* at least */

/* How a call uses the windows; equal on all ranks. */
typedef struct windows {
    lsi_place place;
    const lsi_domains *domains; /* NULL: no relays */
    bool rooted;                /* one rank sends */
    int readers;                /* that each have their slot, or 1 */
    size_t chunk;
} windows;

/*
 * Relays cost a meeting more. With more ranks than CPUs that is a turn of every
 * rank on a CPU.
 */
static bool relays_pay(const ls_group *group, const lsi_place *place)
{
    return lsi_domains_relays(group->domains) && !group->memory.few_cpus &&
           lsi_pull_serves_all(place) &&
           lsi_pull_most(place) >= RELAYED_CHUNKS * lsi_window_chunk(group, 1);
}

static windows windows_of(const lsi_collective *op)
{
    const ls_group *group = op->group;
    windows w = {.place = lsi_place_of(op)};
    w.rooted = lsi_operation_of(op->call.operation)->root == LSI_ROOT_SENDER;
    w.readers = lsi_pull_readers(&w.place);
    int slots = w.readers;
    if (relays_pay(group, &w.place)) {
        w.domains = group->domains;
        slots += w.rooted ? 1 : lsi_domains_relay_slots(w.domains);
    }
    w.chunk = lsi_window_chunk(group, slots);
    return w;
}

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
static int slot_of(const windows *w, int reader)
{
    return w->readers == 1 ? 0 : reader;
}

/* The rank from which `reader` copies what `owner` sends. */
static int relay_of(const windows *w, int reader, int owner)
{
    return w->domains == NULL ? owner
                              : lsi_domains_relay(w->domains, reader, owner);
}

static int relay_slot(const windows *w, int relay, int owner)
{
    return 1 +
           (w->rooted ? 0 : lsi_domains_relay_slot(w->domains, relay, owner));
}

static void fill(const lsi_collective *op, const windows *w, size_t k)
{
    const int rank = op->group->rank;
    bool filled = false;
    for (int r = 0; r < w->place.size && !(filled && w->readers == 1); r++) {
        const lsi_pull part =
            chunk_of(lsi_pull_of(&w->place, r, rank), w->chunk, k);
        if (r == rank || part.bytes == 0)
            continue;
        lsi_copy_out(
            op->group->memory.node,
            lsi_window_slot(op->group, rank, k, slot_of(w, r), w->chunk),
            (const unsigned char *)op->send + part.from, part.bytes);
        filled = true;
    }
}

/* Of the rank that has filled its window, or of the relay a step later. */
static const unsigned char *slot_for(const lsi_collective *op, const windows *w,
                                     int owner, size_t k)
{
    const int rank = op->group->rank, relay = relay_of(w, rank, owner);
    return relay == owner
               ? lsi_window_slot(op->group, owner, k, slot_of(w, rank),
                                 w->chunk)
               : lsi_window_slot(op->group, relay, k + 1,
                                 relay_slot(w, relay, owner), w->chunk);
}

/* The chunks that others have filled or relayed in the step before. */
static void copy_chunks(const lsi_collective *op, const windows *w, size_t step)
{
    const int rank = op->group->rank;
    for (int r = 0; r < w->place.size; r++) {
        const size_t age = relay_of(w, rank, r) == r ? 1 : 2;
        if (r == rank || step < age)
            continue;
        const lsi_pull part =
            chunk_of(lsi_pull_of(&w->place, rank, r), w->chunk, step - age);
        if (part.bytes > 0)
            memcpy((unsigned char *)op->recv + part.to,
                   slot_for(op, w, r, step - age), part.bytes);
    }
}

/* Takes the chunks of other domains that this rank relays. */
static void relay_chunks(const lsi_collective *op, const windows *w,
                         size_t step)
{
    const int rank = op->group->rank;
    for (int r = 0; r < w->place.size && w->domains != NULL; r++) {
        if (r == rank || relay_of(w, rank, r) != rank)
            continue;
        const lsi_pull part =
            chunk_of(lsi_pull_of(&w->place, rank, r), w->chunk, step - 1);
        if (part.bytes > 0)
            lsi_copy_out(op->group->memory.node,
                         lsi_window_slot(op->group, rank, step,
                                         relay_slot(w, rank, r), w->chunk),
                         lsi_window_slot(op->group, r, step - 1, 0, w->chunk),
                         part.bytes);
    }
}

static void step(lsi_collective *op, size_t k)
{
    const windows w = windows_of(op);
    fill(op, &w, k);
    if (k >= 1) {
        relay_chunks(op, &w, k);
        copy_chunks(op, &w, k);
    }
}

bool lsi_move_staged_ahead(lsi_collective *op)
{
    if (!lsi_window_free(op))
        return false;
    const windows w = windows_of(op);
    fill(op, &w, 0);
    return true;
}

ls_status lsi_move_staged(lsi_collective *op)
{
    const windows w = windows_of(op);
    const size_t chunks = (lsi_pull_most(&w.place) + w.chunk - 1) / w.chunk;
    /* A root serves the other ranks first. */
    if (op->step == 0 && !w.rooted)
        lsi_move_own(op);
    const ls_status status =
        lsi_window_steps(op, chunks + 1 + (w.domains != NULL), step);
    if (status == LS_OK) {
        if (w.rooted)
            lsi_move_own(op);
        lsi_count_moved(op);
    }
    return status;
}

/*
 * All-reduce, reduce and reduce-scatter of private memory, through the windows.
 * Each block of the vector travels in chunks; rank r reduces block r. Chunk k
 * passes through three stages, in three consecutive steps:
 *
 *   step     k            k+1             k+2
 *   chunk k  copy in  ->  reduce      ->  copy out
 *            (own part    (rank r its     (what others
 *            of others'   block, own      have reduced)
 *            blocks)      data in place)
 *
 * So in each step a rank does all three, for three chunks, and synchronizes
 * with the others once. A window half holds N slots: N-1 incoming ones and the
 * result. Data that one step writes is read in the next step and overwritten in
 * the one after it.
 *
 * Steps: chunks + 3. Bytes that leave a rank: 2 S (N-1)/N for all-reduce.
 */
#include <assert.h>
#include <string.h>

#include "comm/coll/window.h"
#include "comm/core/paths.h"
#include "comm/node/copy.h"

enum { TILE_BYTES = 8 * 1024 };

/* The bytes of chunk k of a block. */
typedef struct piece {
    size_t begin, elements; /* range of the vector */
} piece;

static int slots(const lsi_collective *op)
{
    return op->group->size;
}

static piece chunk_of(const lsi_collective *op, int owner, size_t k)
{
    const lsi_range block = lsi_block_of(op, owner);
    const size_t chunk = lsi_window_chunk(op->group, slots(op)) / op->item;
    const size_t size = lsi_range_size(block);
    if (k * chunk >= size)
        return (piece){block.begin, 0};
    const size_t left = size - k * chunk;
    return (piece){block.begin + k * chunk, left < chunk ? left : chunk};
}

/* Slot j of rank r's window holds its data for block j; slot r, its result. */
static unsigned char *slot_of(const lsi_collective *op, int rank, int slot,
                              size_t k)
{
    return lsi_window_slot(op->group, rank, k, slot,
                           lsi_window_chunk(op->group, slots(op)));
}

static void copy_in(lsi_collective *op, size_t k)
{
    const int rank = op->group->rank;
    for (int j = 0; j < op->group->size; j++) {
        const piece p = chunk_of(op, j, k);
        if (j == rank || p.elements == 0)
            continue;
        lsi_copy_out(op->group->memory.node, slot_of(op, rank, j, k),
                     (const unsigned char *)op->send + p.begin * op->item,
                     p.elements * op->item);
    }
}

static void deliver(const lsi_collective *op, void *to, const void *from,
                    size_t bytes)
{
    if (lsi_goes_past_caches(op))
        lsi_copy_past_caches(to, from, bytes);
    else
        memcpy(to, from, bytes);
}

/* Reduces a tile and, if others need it, writes it into the window. */
static void reduce_tile(const lsi_collective *op, piece p,
                        const void *const *srcs, unsigned char *window)
{
    unsigned char tile[TILE_BYTES], *to = tile, *recv = NULL;
    const int rank = op->group->rank;
    if (lsi_delivers_to(op, rank, rank))
        recv = (unsigned char *)op->recv + lsi_delivery_offset(op, p.begin);
    if (recv != NULL && !lsi_goes_past_caches(op))
        to = recv;
    lsi_reduce_into(op, to, srcs, op->group->size, p.elements);
    if (recv != NULL && lsi_goes_past_caches(op))
        lsi_copy_past_caches(recv, to, p.elements * op->item);
    if (window != NULL)
        lsi_copy_out(op->group->memory.node, window, to, p.elements * op->item);
}

static void reduce_chunk(const lsi_collective *op, size_t k)
{
    const int rank = op->group->rank, size = op->group->size;
    const piece chunk = chunk_of(op, rank, k);
    const bool shares =
        size > 1 && lsi_operation_reduces_whole(op->call.operation);
    const size_t tile = TILE_BYTES / op->item;
    const void *srcs[LSI_MAX_RANKS];
    for (size_t i = 0; i < chunk.elements; i += tile) {
        const size_t left = chunk.elements - i;
        const piece p = {chunk.begin + i, left < tile ? left : tile};
        for (int r = 0; r < size; r++)
            srcs[r] = slot_of(op, r, rank, k) + i * op->item;
        srcs[rank] = (const unsigned char *)op->send + p.begin * op->item;
        reduce_tile(op, p, srcs,
                    shares ? slot_of(op, rank, rank, k) + i * op->item : NULL);
    }
}

static void copy_out(lsi_collective *op, size_t k)
{
    const int rank = op->group->rank;
    for (int j = 0; j < op->group->size; j++) {
        const piece p = chunk_of(op, j, k);
        if (j == rank || p.elements == 0 || !lsi_delivers_to(op, j, rank))
            continue;
        deliver(op,
                (unsigned char *)op->recv + lsi_delivery_offset(op, p.begin),
                slot_of(op, j, j, k), p.elements * op->item);
    }
}

static size_t chunks(const lsi_collective *op)
{
    const size_t chunk = lsi_window_chunk(op->group, slots(op)) / op->item;
    size_t most = 0;
    for (int r = 0; r < op->group->size; r++) {
        const size_t size = lsi_range_size(lsi_block_of(op, r));
        most = size > most ? size : most;
    }
    return (most + chunk - 1) / chunk;
}

static void step(lsi_collective *op, size_t k)
{
    /* In place, a chunk must have been copied in before it is written. */
    copy_in(op, k);
    if (k >= 1)
        reduce_chunk(op, k - 1);
    if (k >= 2)
        copy_out(op, k - 2);
}

bool lsi_reduce_staged_ahead(lsi_collective *op)
{
    if (!lsi_window_free(op))
        return false;
    copy_in(op, 0);
    return true;
}

ls_status lsi_reduce_staged(lsi_collective *op)
{
    const ls_status status = lsi_window_steps(op, chunks(op) + 2, step);
    if (status == LS_OK)
        lsi_count_reduced(op);
    return status;
}

/*
 * All-reduce, reduce and reduce-scatter where each rank can load and store the
 * others' buffers. Rank r reduces block r of all ranks and stores the result in
 * each receiver's buffer, without further copies.
 *
 *   rank 0   |a0|b0|     a = a0+a1     |a |b |
 *   rank 1   |a1|b1|     b = b0+b1     |a |b |
 *             loads    one rank each    stores
 *
 * Only rank r reads and overwrites block r, so the algorithm works in place.
 * Steps: 2 (arrival, done). Bytes that leave a rank: 2 S (N-1)/N for
 * all-reduce, half of it for reduce and reduce-scatter.
 */
#include <string.h>

#include "comm/coll/algorithm.h"
#include "comm/core/paths.h"
#include "comm/node/copy.h"

enum { TILE_BYTES = 32 * 1024 };

/*
 * Elements of a tile: all sources and the result stay in the first-level cache.
 */
static size_t tile_elements(const lsi_collective *op)
{
    const size_t parts = (size_t)op->group->size + 1;
    const size_t elements = TILE_BYTES / parts / op->item;
    return elements < 256 ? 256 : elements / 64 * 64;
}

typedef struct buffers {
    const unsigned char *send[LSI_MAX_RANKS];
    unsigned char *recv[LSI_MAX_RANKS];
    int receivers;
} buffers;

/* Finds the sources and the receivers of this rank's block. */
static void find_buffers(const lsi_collective *op, buffers *at)
{
    const int rank = op->group->rank;
    at->receivers = 0;
    /* The first receiver gets the reduction, the others copies of it. */
    if (lsi_delivers_to(op, rank, rank))
        at->recv[at->receivers++] = op->recv;
    for (int r = 0; r < op->group->size; r++) {
        at->send[r] = lsi_seen_send(op, r);
        if (r != rank && lsi_delivers_to(op, rank, r))
            at->recv[at->receivers++] = lsi_seen_recv(op, r);
    }
}

static void deliver(const lsi_collective *op, unsigned char *to,
                    const unsigned char *from, size_t bytes)
{
    if (lsi_goes_past_caches(op))
        lsi_copy_past_caches(to, from, bytes);
    else if (to != from)
        memcpy(to, from, bytes);
}

/*
 * Reduces into the first receiver, or where it stays in the first-level cache.
 */
static void reduce_tile(const lsi_collective *op, const buffers *at,
                        size_t begin, size_t elements)
{
    const void *srcs[LSI_MAX_RANKS];
    const size_t to = lsi_delivery_offset(op, begin);
    for (int r = 0; r < op->group->size; r++)
        srcs[r] = at->send[r] + begin * op->item;
    unsigned char tile[TILE_BYTES / 2];
    unsigned char *sum = lsi_goes_past_caches(op) ? tile : at->recv[0] + to;
    lsi_reduce_into(op, sum, srcs, op->group->size, elements);
    for (int i = 0; i < at->receivers; i++)
        deliver(op, at->recv[i] + to, sum, elements * op->item);
}

static void reduce_block(lsi_collective *op)
{
    buffers at;
    const lsi_range block = lsi_block_of(op, op->group->rank);
    const size_t tile = tile_elements(op);
    find_buffers(op, &at);
    for (size_t i = block.begin; i < block.end; i += tile) {
        const size_t left = block.end - i;
        reduce_tile(op, &at, i, left < tile ? left : tile);
    }
    lsi_count_reduced(op);
}

ls_status lsi_reduce_direct(lsi_collective *op)
{
    if (op->step == 0) {
        reduce_block(op);
        op->step = 1;
        lsi_collective_publish(op);
    }
    return lsi_collective_arrived(op);
}

/*
 * All-reduce, reduce and reduce-scatter of private memory that other processes
 * may read (process_vm_readv). Rank r copies block r of every other rank to
 * itself, a tile at a time, and reduces it. Then each rank that needs the other
 * results copies them from their owners. One copy each way instead of the two
 * that the windows need.
 *
 *   rank 0   |a0|b0|  <- a1     a = a0+a1    |a |b |  <- b
 *   rank 1   |a1|b1|  <- b0     b = b0+b1    |a |b |  <- a
 *             arrival            reduced              done
 *
 * While others read, a rank writes only its own block, which no rank reads
 * before it is reduced. So the algorithm works in place.
 *
 * Steps: 3 (arrival, reduced, done). Bytes that leave a rank: 2 S (N-1)/N for
 * all-reduce.
 */
#include "base/error.h"
#include "comm/coll/algorithm.h"
#include "comm/core/paths.h"
#include "comm/node/remote.h"

enum { TILES_BYTES = 256 * 1024, MOST_TILE_BYTES = 64 * 1024 };

/* Bytes of each rank's tile: all tiles share the second-level cache. */
static size_t tile_bytes(const lsi_collective *op)
{
    const size_t share = TILES_BYTES / (size_t)op->group->size;
    const size_t bytes = share < MOST_TILE_BYTES ? share : MOST_TILE_BYTES;
    return bytes / LSI_LINE * LSI_LINE;
}

static size_t tiles_bytes(const lsi_collective *op)
{
    return tile_bytes(op) * (size_t)op->group->size;
}

/* The results of a reduce are stored after the tiles. */
size_t lsi_reduce_copy_scratch(const lsi_collective *op)
{
    const bool elsewhere =
        lsi_operation_of(op->call.operation)->root == LSI_ROOT_RECEIVER;
    const size_t results =
        elsewhere ? lsi_range_size(lsi_block_of(op, 0)) * op->item : 0;
    return tiles_bytes(op) + results;
}

/* The place of this rank's reduced block. */
static unsigned char *result_place(const lsi_collective *op, size_t begin)
{
    const int rank = op->group->rank;
    if (lsi_delivers_to(op, rank, rank))
        return (unsigned char *)op->recv + lsi_delivery_offset(op, begin);
    const size_t first = lsi_block_of(op, rank).begin;
    return (unsigned char *)op->scratch + tiles_bytes(op) +
           (begin - first) * op->item;
}

/* The address of a peer's reduced block, in the peer's address space. */
static uint64_t result_address(const lsi_collective *op, int peer)
{
    const lsi_offer *offer = lsi_offer_of(op, peer);
    const size_t begin = lsi_block_of(op, peer).begin;
    if (lsi_delivers_to(op, peer, peer))
        return offer->recv + lsi_delivery_offset(op, begin);
    return offer->scratch + tiles_bytes(op);
}

static ls_status reduce_tile(const lsi_collective *op, size_t begin,
                             size_t elements)
{
    const int rank = op->group->rank, size = op->group->size;
    const void *srcs[LSI_MAX_RANKS];
    for (int i = 1; i < size; i++) {
        const int peer = (rank + i) % size;
        unsigned char *tile =
            (unsigned char *)op->scratch + (size_t)peer * tile_bytes(op);
        const uint64_t from = lsi_offer_of(op, peer)->send + begin * op->item;
        LS_TRY(
            lsi_remote_read(op->group, peer, tile, from, elements * op->item));
        srcs[peer] = tile;
    }
    srcs[rank] = (const unsigned char *)op->send + begin * op->item;
    lsi_reduce_into(op, result_place(op, begin), srcs, size, elements);
    return LS_OK;
}

static ls_status reduce_block(lsi_collective *op)
{
    const int rank = op->group->rank;
    const lsi_range block = lsi_block_of(op, rank);
    const size_t tile = tile_bytes(op) / op->item;
    for (size_t i = block.begin; i < block.end; i += tile) {
        const size_t left = block.end - i;
        LS_TRY(reduce_tile(op, i, left < tile ? left : tile));
    }
    return LS_OK;
}

static ls_status read_results(lsi_collective *op)
{
    const int rank = op->group->rank, size = op->group->size;
    for (int i = 1; i < size; i++) {
        const int peer = (rank + i) % size;
        const lsi_range block = lsi_block_of(op, peer);
        const size_t bytes = lsi_range_size(block) * op->item;
        if (bytes == 0 || !lsi_delivers_to(op, peer, rank))
            continue;
        LS_TRY(lsi_remote_read(op->group, peer,
                               (unsigned char *)op->recv +
                                   lsi_delivery_offset(op, block.begin),
                               result_address(op, peer), bytes));
    }
    return LS_OK;
}

/* Steps 0 and 1 each do something and publish it; step 2 is done. */
ls_status lsi_reduce_copy(lsi_collective *op)
{
    while (op->step < 2) {
        LS_TRY(lsi_collective_arrived(op));
        LS_TRY(op->step == 0 ? reduce_block(op) : read_results(op));
        op->step++;
        lsi_collective_publish(op);
    }
    const ls_status status = lsi_collective_arrived(op);
    if (status == LS_OK)
        lsi_count_reduced(op);
    return status;
}

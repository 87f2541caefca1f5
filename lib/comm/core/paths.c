#include "comm/core/paths.h"

#include <assert.h>
#include <string.h>

#include "comm/node/copy.h"
#include "comm/node/shared.h"
#include "comm/state/channels.h"
#include "fold/fold.h"

enum {
    LARGE = 16 << 20, /* bytes; 10 MB are slower so */
    COPY_IN_PLACE = 2 << 20
};

lsi_place lsi_place_of(const lsi_collective *op)
{
    const bool counted = lsi_operation_has_counts(op->call.operation);
    const lsi_place place = {.operation = op->call.operation,
                             .block = op->block,
                             .size = op->group->size,
                             .root = op->call.root,
                             .cut = {op->cut.first * op->item,
                                     op->cut.shard * op->item,
                                     op->cut.rails,
                                     {op->cut.window.begin * op->item,
                                      op->cut.window.end * op->item}},
                             .counted = counted ? &op->counted : NULL,
                             .item = op->item,
                             .self = op->group->rank};
    return place;
}

size_t lsi_sent(const lsi_collective *op)
{
    const lsi_place place = lsi_place_of(op);
    return lsi_contribution(&place, op->group->rank);
}

size_t lsi_most_sent(const lsi_collective *op)
{
    const lsi_place place = lsi_place_of(op);
    return lsi_contribution_most(&place);
}

lsi_range lsi_block_of(const lsi_collective *op, int rank)
{
    const size_t count = op->call.count;
    const size_t r = (size_t)rank;
    assert(rank >= 0 && rank < op->group->size);
    const lsi_operation_row *row = lsi_operation_of(op->call.operation);
    if (op->call.operation == LSI_OP_REDUCE_SCATTERV)
        return (lsi_range){op->counted.sends[r], op->counted.sends[r + 1]};
    if (row->sends == LSI_EXTENT_BLOCKS || row->receives == LSI_EXTENT_BLOCKS)
        return (lsi_range){r * count, (r + 1) * count};
    if (row->receives == LSI_EXTENT_SHARD)
        return lsi_cut_part(&op->cut, count, op->group->size, rank);
    return lsi_partition_aligned(count, (size_t)op->group->size, r,
                                 LSI_LINE / op->item);
}

bool lsi_collective_receives(const lsi_collective *op, int rank)
{
    return lsi_operation_of(op->call.operation)->root != LSI_ROOT_RECEIVER ||
           op->call.root == rank;
}

bool lsi_exchanges_in_place(const lsi_collective *op)
{
    const lsi_operation_row *row = lsi_operation_of(op->call.operation);
    return row->sends == LSI_EXTENT_BLOCKS &&
           row->receives == LSI_EXTENT_BLOCKS && op->send == op->recv;
}

bool lsi_delivers_to(const lsi_collective *op, int owner, int rank)
{
    if (!lsi_collective_receives(op, rank))
        return false;
    return lsi_operation_reduces_whole(op->call.operation) || rank == owner;
}

size_t lsi_delivery_offset(const lsi_collective *op, size_t begin)
{
    if (lsi_operation_of(op->call.operation)->sends == LSI_EXTENT_BLOCKS ||
        op->call.operation == LSI_OP_REDUCE_SCATTERV || op->cut.window.end != 0)
        begin -= lsi_block_of(op, op->group->rank).begin;
    assert(begin <= SIZE_MAX / 2); /* `begin` was in this rank's block */
    return begin * op->item;
}

/* In place, an exchange would overwrite data that others have not read yet. */
static bool must_be_staged(const lsi_collective *op)
{
    return lsi_exchanges_in_place(op) && op->group->size > 1;
}

/*
 * In place, the data that the kernel would copy is still dirty in another
 * cache, which is slow. 1 MB took 151 us, and 116 us through the windows; 3 MB
 * took 303 and 395 us.
 */
static bool has_better_than_copy(const lsi_collective *op)
{
    return lsi_operation_reduces_whole(op->call.operation) &&
           op->send == op->recv && op->block < (size_t)COPY_IN_PLACE &&
           op->candidates[1] != NULL;
}

void lsi_make_offer(lsi_collective *op, lsi_offer *offer)
{
    const ls_group *group = op->group;
    const bool alone = group->size == 1;
    assert(op->offers);
    *offer = (lsi_offer){.able = LSI_PATH_NODES};
    if (lsi_spans_nodes(group))
        return; /* between nodes only messages work */
    const bool receives = lsi_collective_receives(op, group->rank);
    const uint64_t recv_at = receives ? lsi_shared_token(group, op->recv) : 0;
    uint64_t send_at = lsi_shared_token(group, op->send);
    if (lsi_operation_reduces_whole(op->call.operation) && send_at == 0 &&
        recv_at != 0) {
        memcpy(op->recv, op->send, op->block);
        op->send = op->recv;
        send_at = recv_at;
    }
    uint64_t able = LSI_PATH_NODE;
    if (!must_be_staged(op) && (alone || send_at != 0 || lsi_sent(op) == 0))
        able |= LSI_PATH_SEND_SEEN;
    if (alone || recv_at != 0 || !receives)
        able |= LSI_PATH_RECV_SEEN;
    if (group->memory.can_copy && !must_be_staged(op) &&
        !has_better_than_copy(op))
        able |= LSI_PATH_COPY;
    *offer = (lsi_offer){
        .able = able,
        .scratch = (uint64_t)(uintptr_t)op->scratch,
        .send = (uint64_t)(uintptr_t)op->send,
        .recv = (uint64_t)(uintptr_t)op->recv,
        .send_at = send_at,
        .recv_at = recv_at,
    };
}

bool lsi_goes_past_caches(const lsi_collective *op)
{
    /* Windows follow each other; in place, the caches hold the result. */
    return op->send != op->recv && op->cut.window.end == 0 &&
           op->call.count * op->item >= (size_t)LARGE;
}

void lsi_pack(const lsi_collective *op)
{
    if (op->sent != 0)
        lsi_copy_to_cell(op->group->memory.node,
                         lsi_cell_data(op, op->group->rank), op->send,
                         op->sent);
}

const unsigned char *lsi_seen_send(const lsi_collective *op, int rank)
{
    if (rank == op->group->rank)
        return op->send;
    return lsi_shared_resolve(op->group, lsi_offer_of(op, rank)->send_at, rank);
}

unsigned char *lsi_seen_recv(const lsi_collective *op, int rank)
{
    if (rank == op->group->rank)
        return op->recv;
    return lsi_shared_resolve(op->group, lsi_offer_of(op, rank)->recv_at, rank);
}

/* Bytes of this rank's data for blocks that other ranks reduce. */
static size_t given_away(const lsi_collective *op)
{
    const int rank = op->group->rank, n = op->group->size;
    const size_t own = lsi_range_size(lsi_block_of(op, rank)) * op->item;
    size_t given = 0;
    if (lsi_operation_of(op->call.operation)->sends == LSI_EXTENT_BLOCKS)
        return op->block * (size_t)n - own;
    if (op->cut.window.end == 0)
        return op->block - own;
    for (int r = 0; r < n; r++)
        given += r == rank ? 0 : lsi_range_size(lsi_block_of(op, r)) * op->item;
    return given;
}

void lsi_count_reduced(const lsi_collective *op)
{
    const int rank = op->group->rank;
    const size_t own = lsi_range_size(lsi_block_of(op, rank)) * op->item;
    size_t receivers = 0;
    for (int r = 0; r < op->group->size; r++)
        receivers += r != rank && lsi_delivers_to(op, rank, r);
    op->group->counters->bytes_sent += given_away(op) + own * receivers;
}

void lsi_reduce_into(const lsi_collective *op, void *dst,
                     const void *const *srcs, int n_srcs, size_t elements)
{
    const bool average = op->call.redop == LS_REDUCE_AVG;
    lsi_serial_reduce(dst, srcs, n_srcs, elements, op->call.dtype,
                      lsi_call_step(&op->call),
                      average ? 1.0 / op->group->size : 1.0);
}

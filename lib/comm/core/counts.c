/*
 * An all-gather and a reduce-scatter need the counts of all ranks, which must
 * be the same on all ranks: a hash of them is a part of the call. In an
 * exchange each rank knows only its own counts. So the sender publishes where a
 * block begins, and the receiver checks its length.
 */
#include "comm/core/counts.h"

#include <assert.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"

static ls_status make_room(lsi_block_table *counted, size_t ranks)
{
    if (counted->room == ranks)
        return LS_OK;
    lsi_counts_free(counted);
    LS_TRY(lsi_alloc_zeroed(&counted->sends, (3 * ranks + 2) * sizeof(size_t),
                            LS_MEMORY_COMM, "counts of ranks"));
    counted->receives = counted->sends + ranks + 1;
    counted->from = counted->receives + ranks + 1;
    counted->room = ranks;
    return LS_OK;
}

void lsi_counts_free(lsi_block_table *counted)
{
    lsi_free(counted->sends);
    *counted = (lsi_block_table){0};
}

static void add_up(lsi_block_table *counted, size_t *begin,
                   const size_t *counts)
{
    if (counts == NULL)
        return;
    begin[0] = 0;
    for (size_t r = 0; r < counted->room; r++) {
        begin[r + 1] = begin[r] + counts[r];
        assert(begin[r + 1] >= begin[r]);
        counted->most = counts[r] > counted->most ? counts[r] : counted->most;
    }
}

ls_status lsi_counts_note(lsi_block_table *counted, const ls_group *group,
                          const lsi_counts *counts, lsi_call *call)
{
    const size_t n = (size_t)group->size;
    LS_TRY(make_room(counted, n));
    counted->most = 0;
    add_up(counted, counted->sends, counts->sends);
    add_up(counted, counted->receives, counts->receives);
    const size_t *all =
        counts->sends != NULL ? counted->sends : counted->receives;
    call->count = all[n];
    if (call->operation != LSI_OP_ALL_TO_ALLV)
        call->root =
            (int)(lsi_hash(LSI_HASH_START, all, n * sizeof(*all)) % INT32_MAX);
    return LS_OK;
}

void lsi_counts_publish(const lsi_collective *op)
{
    const lsi_block_table *c = &op->counted;
    if (!lsi_operation_has_counts(op->call.operation))
        return;
    assert(c->room == (size_t)op->group->size);
    uint64_t *table = lsi_cell_table(op, op->group->rank);
    const size_t *own =
        op->call.operation == LSI_OP_ALL_GATHERV ? c->receives : c->sends;
    for (int r = 0; r <= op->group->size; r++)
        table[r] = own[r];
    table[op->group->size + 1] = c->most;
}

void lsi_counts_read(lsi_collective *op, int rank)
{
    lsi_block_table *c = &op->counted;
    if (op->call.operation != LSI_OP_ALL_TO_ALLV || op->call.refusal != LS_OK ||
        op->refuser >= 0)
        return;
    assert(op->phase == 1);
    const uint64_t *table = lsi_cell_table(op, rank);
    const size_t most = (size_t)table[op->group->size + 1];
    c->from[rank] = (size_t)table[op->group->rank];
    c->most = most > c->most ? most : c->most;
}

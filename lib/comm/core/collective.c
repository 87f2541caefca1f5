#include "comm/core/collective.h"

#include <assert.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "comm/core/paths.h"
#include "comm/state/algorithm.h"
#include "comm/state/forks.h"

/* The most private memory that any candidate may ask for. */
static size_t scratch_needed(const lsi_collective *op)
{
    size_t most = 0;
    for (int i = 0; i < LSI_CANDIDATES && op->candidates[i] != NULL; i++) {
        const lsi_algorithm *algorithm = op->candidates[i];
        const size_t bytes =
            algorithm->scratch == NULL ? 0 : algorithm->scratch(op);
        most = bytes > most ? bytes : most;
    }
    return most;
}

static ls_status reserve_scratch(lsi_collective *op)
{
    const size_t bytes = scratch_needed(op);
    if (bytes <= op->scratch_bytes)
        return LS_OK;
    lsi_free(op->scratch);
    op->scratch = NULL;
    op->scratch_bytes = 0;
    LS_TRY(lsi_alloc(&op->scratch, bytes, LS_MEMORY_COMM,
                     lsi_operation_name(op->call.operation)));
    op->scratch_bytes = bytes;
    return LS_OK;
}

static void find_candidates(lsi_collective *op, const lsi_place *place)
{
    const size_t bytes = lsi_contribution_most(place);
    const lsi_algorithm *const *found =
        lsi_select_find(op->group->select, op->call.operation, bytes);
    memcpy(op->candidates, found, sizeof(op->candidates));
}

ls_status lsi_collective_prepare(lsi_collective *op, ls_group *group,
                                 const lsi_call *call, const void *send,
                                 void *recv)
{
    assert(op->state == LSI_COLLECTIVE_IDLE || lsi_has_failed(group) ||
           lsi_is_inherited(group));
    op->group = group;
    op->call = *call;
    op->send = send;
    op->recv = recv;
    op->item = ls_dtype_size(call->dtype);
    op->block = call->count * op->item;
    const lsi_place place = lsi_place_of(op);
    find_candidates(op, &place);
    op->offers = !op->candidates[0]->in_cells;
    return reserve_scratch(op);
}

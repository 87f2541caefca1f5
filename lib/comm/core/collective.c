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

/* ---- scratch memory of planned collectives ------------------------------- */

struct lsi_spare {
    lsi_spare *next;
    size_t bytes;
};

void lsi_collective_spare_scratch(lsi_collective *op)
{
    lsi_spare *const spare = op->scratch;
    if (spare == NULL)
        return;
    *spare = (lsi_spare){op->group->spares, op->scratch_bytes};
    op->group->spares = spare;
    op->scratch = NULL;
    op->scratch_bytes = 0;
}

void lsi_spares_free(ls_group *group)
{
    while (group->spares != NULL) {
        lsi_spare *const spare = group->spares;
        group->spares = spare->next;
        lsi_free(spare);
    }
}

/* Uses the smallest spare block of at least these bytes, or frees one. */
static void take_spare(lsi_collective *op, size_t bytes)
{
    lsi_spare **best = &op->group->spares;
    if (*best == NULL)
        return;
    for (lsi_spare **at = &(*best)->next; *at != NULL; at = &(*at)->next) {
        const bool fits = (*at)->bytes >= bytes;
        if (fits && ((*best)->bytes < bytes || (*at)->bytes < (*best)->bytes))
            best = at;
    }
    lsi_spare *const spare = *best;
    *best = spare->next;
    if (spare->bytes < bytes) {
        lsi_free(spare);
        return;
    }
    op->scratch_bytes = spare->bytes;
    op->scratch = spare;
}

ls_status lsi_collective_reserve_scratch(lsi_collective *op)
{
    size_t bytes = scratch_needed(op);
    if (bytes <= op->scratch_bytes)
        return LS_OK;
    if (bytes < sizeof(lsi_spare))
        bytes = sizeof(lsi_spare);
    lsi_free(op->scratch);
    op->scratch = NULL;
    op->scratch_bytes = 0;
    take_spare(op, bytes);
    if (op->scratch != NULL)
        return LS_OK;
    LS_TRY(lsi_alloc(&op->scratch, bytes, LS_MEMORY_COMM,
                     lsi_operation_name(op->call.operation)));
    op->scratch_bytes = bytes;
    return LS_OK;
}

/* ---- preparing ----------------------------------------------------------- */

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
    return lsi_collective_reserve_scratch(op);
}

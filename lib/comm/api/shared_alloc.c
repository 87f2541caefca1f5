/*
 * Making and dropping buffers that every rank of the node maps. An allocation
 * is one range of the job's memory with one part a rank, and all ranks map all
 * of it.
 */
#include "comm/api/shared_alloc.h"

#include <assert.h>
#include <stdio.h>

#include "base/error.h"
#include "base/memory.h"
#include "comm/api/check.h"
#include "comm/core/agree.h"
#include "comm/node/shared.h"
#include "comm/node/space.h"
#include "comm/node/transport.h"
#include "comm/state/channels.h"

static ls_status check_request(const ls_group *group, size_t bytes,
                               void *const *data)
{
    if (data == NULL)
        return lsi_fail(LS_ERR_ARGUMENT, "ls_shared_alloc: data is NULL");
    const uint64_t most = ((uint64_t)1 << 43) / (uint64_t)group->size;
    if (bytes > most)
        return lsi_fail(LS_ERR_MEMORY,
                        "cannot share %zu bytes per rank; the limit is %llu "
                        "bytes per rank for %d ranks",
                        bytes, (unsigned long long)most, group->size);
    return LS_OK;
}

/* Returns a range that rank 0 has taken but will not use. */
static void return_unused(ls_group *group, uint64_t offset, size_t bytes)
{
    if (group->rank == 0 && !lsi_has_failed(group))
        lsi_space_free(group, offset, bytes);
}

static ls_status alloc_here(ls_group *group, const lsi_call *call, bool sparse,
                            void **data)
{
    const lsi_shared_shape wanted = lsi_shared_shape_of(group, call->count);
    uint64_t offset = 0, offsets[LSI_MAX_RANKS];
    if (group->rank == 0)
        offset = lsi_space_allocate(group, wanted.mapped);
    ls_status status =
        lsi_exchange(group, call, &offset, sizeof(offset), offsets);
    if (status != LS_OK) {
        return_unused(group, offset, wanted.mapped);
        return status;
    }
    lsi_shared_choose_id(group); /* also where this rank cannot map it */
    status = lsi_shared_attach(group, offsets[0], wanted);
    const bool attached = status == LS_OK;
    if (attached && !sparse)
        status = lsi_shared_reserve(group, group->memory.shared);
    const ls_status agreed = lsi_agree(group, call, status);
    if (agreed != LS_OK) {
        if (attached)
            lsi_shared_detach(group, group->memory.shared);
        return_unused(group, offset, wanted.mapped);
        return agreed;
    }
    *data = group->memory.shared->base +
            (size_t)group->rank * group->memory.shared->stride;
    return LS_OK;
}

/*
 * Checks the memory for the parts of all ranks of this node. All ranks check
 * before any of them reserves, as a collective lies in between.
 */
static ls_status ask(const ls_group *group, size_t bytes)
{
    char what[64];
    snprintf(what, sizeof(what), "a buffer shared by %d ranks", group->size);
    return lsi_memory_ask(lsi_shared_shape_of(group, bytes).mapped,
                          LS_MEMORY_COMM, what);
}

static ls_status alloc(ls_group *group, size_t bytes, bool sparse, void **data);

/* Allocates separate memory on each node. */
static ls_status alloc_on_nodes(ls_group *group, const lsi_call *call,
                                bool sparse, void **data)
{
    void *made = NULL;
    const ls_status status =
        alloc(group->channels.local, call->count, sparse, &made);
    const ls_status agreed = lsi_agree(group, call, status);
    if (agreed == LS_OK)
        *data = made;
    else
        ls_ignore(ls_shared_free(group->channels.local, &made));
    return agreed;
}

static ls_status alloc(ls_group *group, size_t bytes, bool sparse, void **data)
{
    LS_TRY(lsi_check_group(group, "ls_shared_alloc"));
    const lsi_call call = {.operation = LSI_OP_SHARED_ALLOC, .count = bytes};
    ls_status status = check_request(group, bytes, data);
    if (status == LS_OK && !lsi_spans_nodes(group) && !sparse)
        status = ask(group, bytes);
    if (status != LS_OK)
        return lsi_refuse(group, &call, status);
    return lsi_spans_nodes(group) ? alloc_on_nodes(group, &call, sparse, data)
                                  : alloc_here(group, &call, sparse, data);
}

ls_status ls_shared_alloc(ls_group *group, size_t bytes, void **data)
{
    return alloc(group, bytes, false, data);
}

ls_status lsi_shared_alloc_sparse(ls_group *group, size_t bytes, void **data)
{
    return alloc(group, bytes, true, data);
}

/* ---- freeing ------------------------------------------------------------- */

static lsi_shared *own(ls_group *group, const lsi_shared *found)
{
    lsi_shared *mine = group->memory.shared;
    assert(group->dup_of == NULL);
    while (mine != found)
        mine = mine->next;
    return mine;
}

ls_status ls_shared_free(ls_group *group, void **data)
{
    LS_NEED(group, data);
    if (*data == NULL)
        return LS_OK;
    lsi_call call = {.operation = LSI_OP_SHARED_FREE};
    ls_group *here = group->channels.local;
    const lsi_shared *found = lsi_shared_find(here, *data);
    if (found == NULL)
        return lsi_refuse(group, &call,
                          lsi_fail(LS_ERR_ARGUMENT,
                                   "ls_shared_free: ls_shared_alloc did not "
                                   "allocate this memory in this group"));
    call.count = found->id;
    const ls_status status = lsi_agree(group, &call, LS_OK);
    if (status != LS_OK && !lsi_has_failed(group))
        return status; /* a rank keeps its part, so all do */
    lsi_shared_let_go(here, own(here, found));
    *data = NULL;
    return status;
}

/* The range is not released, so no rank gets it while it is mapped here. */
ls_status ls_shared_keep(ls_group *group, void *data, void **mapping,
                         size_t *bytes)
{
    LS_NEED(group, data, bytes, mapping);
    ls_group *here = group->channels.local;
    lsi_node_memory *node = here->memory.node;
    const lsi_shared *found = lsi_shared_find(here, data);
    if (found == NULL)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "ls_shared_keep: ls_shared_alloc did not allocate this "
                        "memory in this group");
    if (!node->transport->leave(node, found->base))
        return lsi_fail(LS_ERR_UNSUPPORTED,
                        "ls_shared_keep: other ranks of the group are threads "
                        "of this process; ranks must be processes");
    *mapping = found->base;
    *bytes = found->mapped;
    lsi_shared_disown(here, own(here, found));
    return LS_OK;
}

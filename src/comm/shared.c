/*
 * Buffers that every rank of the node maps. An allocation is one range of the
 * job's memory with one part a rank, and all ranks map all of it.
 */
#include "comm/shared.h"

#include <stdio.h>
#include <sys/mman.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "comm/agree.h"
#include "comm/check.h"
#include "comm/collective.h"
#include "comm/copy.h"
#include "comm/failure.h"
#include "comm/internode.h"
#include "comm/space.h"

/* A token names an allocation and a byte of the rank's part of it. */
enum { OFFSET_BITS = 44, ID_BITS = 64 - OFFSET_BITS };

#define HUGE_PAGE ((uint64_t)2 << 20)

/* A duplicate sees the buffers of the group that it is made from. */
static const lsi_shared *buffers(const ls_group *group)
{
    return group->dup_of != NULL ? group->dup_of->memory.shared
                                 : group->memory.shared;
}

static const lsi_shared *find_id(const ls_group *group, uint64_t id)
{
    const lsi_shared *s = buffers(group);
    while (s != NULL && s->id != id)
        s = s->next;
    return s;
}

/* The same on all ranks, which allocate and free in the same order. */
static void choose_id(ls_group *group)
{
    const uint64_t mask = ((uint64_t)1 << ID_BITS) - 1;
    do
        group->memory.shared_id = (group->memory.shared_id + 1) & mask;
    while (group->memory.shared_id == 0 ||
           find_id(group, group->memory.shared_id) != NULL);
}

/* The allocation that holds `data` in this rank's part. */
static const lsi_shared *find(const ls_group *group, const void *data)
{
    const uintptr_t at = (uintptr_t)data;
    for (const lsi_shared *s = buffers(group); s != NULL; s = s->next) {
        const uintptr_t own =
            (uintptr_t)s->base + (size_t)group->rank * s->stride;
        if (at >= own && at - own < s->stride)
            return s;
    }
    return NULL;
}

uint64_t lsi_shared_token(const ls_group *group, const void *data)
{
    if (group->memory.node->transport->one_address_space)
        return (uint64_t)(uintptr_t)data;
    const lsi_shared *s = find(group, data);
    if (s == NULL)
        return 0;
    const uint64_t offset = (uint64_t)((uintptr_t)data - (uintptr_t)s->base) -
                            (uint64_t)group->rank * s->stride;
    return s->id << OFFSET_BITS | offset;
}

void *lsi_shared_resolve(const ls_group *group, uint64_t token, int rank)
{
    if (group->memory.node->transport->one_address_space)
        return (void *)(uintptr_t)token;
    const lsi_shared *s = find_id(group, token >> OFFSET_BITS);
    if (s == NULL)
        return NULL; /* a rank that has nothing to offer */
    return s->base + (size_t)rank * s->stride +
           (token & (((uint64_t)1 << OFFSET_BITS) - 1));
}

/* ---- making and dropping ------------------------------------------------- */

/* How an allocation is laid out: a part for each rank, then the hold. */
typedef struct shape {
    size_t bytes, stride, mapped;
} shape;

static shape shape_of(const ls_group *group, size_t bytes)
{
    const size_t unit = bytes >= LSI_PAGE ? LSI_PAGE : LSI_LINE;
    const size_t stride = (bytes / unit + 1) * unit;
    const size_t all = (size_t)group->size * stride + sizeof(lsi_hold);
    return (shape){bytes, stride, (all + LSI_PAGE - 1) / LSI_PAGE * LSI_PAGE};
}

/* Unmaps one that nobody is going to use, and takes it off the list. */
static void detach(ls_group *group, lsi_shared *shared)
{
    lsi_shared **link = &group->memory.shared;
    while (*link != shared)
        link = &(*link)->next;
    *link = shared->next;
    group->memory.node->transport->unmap(group->memory.node, shared->base,
                                         shared->mapped);
    lsi_memory_discharge(shared->stride, LS_MEMORY_COMM);
    lsi_free(shared);
}

/* The same for one that others may still be using. */
static void let_go(ls_group *group, lsi_shared *shared)
{
    const uint64_t offset = shared->offset;
    const size_t mapped = shared->mapped;
    const bool last = lsi_space_let_go(shared->hold, group->size);
    detach(group, shared);
    if (last)
        lsi_space_give_back(group, offset, mapped);
}

/* Maps the range and adds it to the list. */
static ls_status attach(ls_group *group, uint64_t offset, shape made)
{
    void *block = NULL, *base = NULL;
    LS_TRY(lsi_memory_charge(made.stride, LS_MEMORY_COMM, "a shared buffer"));
    ls_status status = lsi_alloc_zeroed(&block, sizeof(lsi_shared),
                                        LS_MEMORY_COMM, "a shared buffer");
    if (status == LS_OK)
        status = group->memory.node->transport->map(group->memory.node, offset,
                                                    made.mapped, &base);
    if (status != LS_OK) {
        lsi_memory_discharge(made.stride, LS_MEMORY_COMM);
        lsi_free(block);
        return status;
    }
    /* A hint; the control region, which is sparse, does not get it. */
    if (made.mapped >= HUGE_PAGE)
        (void)madvise(base, made.mapped, MADV_HUGEPAGE);
    unsigned char *behind =
        (unsigned char *)base + (size_t)group->size * made.stride;
    lsi_shared *shared = block;
    *shared = (lsi_shared){.next = group->memory.shared,
                           .base = base,
                           .stride = made.stride,
                           .bytes = made.bytes,
                           .mapped = made.mapped,
                           .hold = (lsi_hold *)(void *)behind,
                           .offset = offset,
                           .id = group->memory.shared_id};
    group->memory.shared = shared;
    return LS_OK;
}

static ls_status check_request(const ls_group *group, size_t bytes,
                               void *const *data)
{
    if (data == NULL)
        return lsi_fail(LS_ERR_ARGUMENT, "ls_shared_alloc: data is NULL");
    const uint64_t most = ((uint64_t)1 << 43) / (uint64_t)group->size;
    if (bytes > most)
        return lsi_fail(LS_ERR_MEMORY,
                        "cannot share %zu bytes a rank; %llu are the most for "
                        "%d ranks",
                        bytes, (unsigned long long)most, group->size);
    return LS_OK;
}

/* Of a range that rank 0 has taken in vain. */
static void return_unused(ls_group *group, uint64_t offset, size_t bytes)
{
    if (group->rank == 0 && !lsi_has_failed(group))
        lsi_space_give_back(group, offset, bytes);
}

/* Pages that two small parts have in common are reserved twice. */
static ls_status reserve_part(const ls_group *group, const lsi_shared *shared)
{
    const size_t begin = (size_t)group->rank * shared->stride;
    const size_t from = begin / LSI_PAGE * LSI_PAGE;
    const size_t to =
        (begin + shared->stride + LSI_PAGE - 1) / LSI_PAGE * LSI_PAGE;
    return group->memory.node->transport->reserve(
        group->memory.node, shared->offset + from, shared->base + from,
        to - from);
}

static ls_status alloc_here(ls_group *group, const lsi_call *call, bool sparse,
                            void **data)
{
    const shape wanted = shape_of(group, call->count);
    uint64_t offset = 0, offsets[LSI_MAX_RANKS];
    if (group->rank == 0)
        offset = lsi_space_take(group, wanted.mapped);
    ls_status status =
        lsi_exchange(group, call, &offset, sizeof(offset), offsets);
    if (status != LS_OK) {
        return_unused(group, offset, wanted.mapped);
        return status;
    }
    choose_id(group); /* also where this rank cannot map it */
    status = attach(group, offsets[0], wanted);
    const bool attached = status == LS_OK;
    if (attached && !sparse)
        status = reserve_part(group, group->memory.shared);
    const ls_status agreed = lsi_agree(group, call, status);
    if (agreed != LS_OK) {
        if (attached)
            detach(group, group->memory.shared);
        return_unused(group, offset, wanted.mapped);
        return agreed;
    }
    *data = group->memory.shared->base +
            (size_t)group->rank * group->memory.shared->stride;
    return LS_OK;
}

/*
 * The parts of all ranks of this node. All ask before any of them reserves, as
 * they meet in between.
 */
static ls_status ask(const ls_group *group, size_t bytes)
{
    char what[64];
    snprintf(what, sizeof(what), "a buffer that %d ranks share", group->size);
    return lsi_memory_ask(shape_of(group, bytes).mapped, LS_MEMORY_COMM, what);
}

static ls_status alloc(ls_group *group, size_t bytes, bool sparse, void **data);

/* Each node has memory of its own. */
static ls_status alloc_on_nodes(ls_group *group, const lsi_call *call,
                                bool sparse, void **data)
{
    void *made = NULL;
    const ls_status status =
        alloc(group->net->local, call->count, sparse, &made);
    const ls_status agreed = lsi_agree(group, call, status);
    if (agreed == LS_OK)
        *data = made;
    else
        (void)ls_shared_free(group->net->local, &made);
    return agreed;
}

static ls_status alloc(ls_group *group, size_t bytes, bool sparse, void **data)
{
    LS_TRY(lsi_check_group(group, "ls_shared_alloc"));
    const lsi_call call = {.operation = LSI_OP_SHARED_ALLOC, .count = bytes};
    ls_status status = check_request(group, bytes, data);
    if (status == LS_OK && group->net == NULL && !sparse)
        status = ask(group, bytes);
    if (status != LS_OK)
        return lsi_refuse(group, &call, status);
    return group->net != NULL ? alloc_on_nodes(group, &call, sparse, data)
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

void *ls_shared_peer(const ls_group *group, const void *data, int rank)
{
    if (group == NULL || data == NULL || rank < 0 || rank >= group->size)
        return NULL;
    if (group->net != NULL)
        return lsi_on_other_node(group, rank)
                   ? NULL
                   : ls_shared_peer(group->net->local, data,
                                    group->net->index_of[rank]);
    const lsi_shared *s = find(group, data);
    if (s == NULL)
        return NULL;
    const size_t offset = (size_t)((uintptr_t)data - (uintptr_t)s->base) -
                          (size_t)group->rank * s->stride;
    return s->base + (size_t)rank * s->stride + offset;
}

void *lsi_shared_first_here(const ls_group *group, const void *data)
{
    void *part = NULL;
    for (int r = 0; part == NULL && r < group->size; r++)
        part = ls_shared_peer(group, data, r);
    return part;
}

/* ---- pushing ------------------------------------------------------------- */

/* Bytes that are worth another thread. */
enum { PUSH_GRAIN = 1 << 18 };

typedef struct pushing {
    unsigned char *to;
    const unsigned char *from;
} pushing;

static void push_part(void *context, size_t begin, size_t end)
{
    const pushing *const p = context;
    lsi_copy_past_caches(p->to + begin, p->from + begin, end - begin);
}

void lsi_shared_push(const ls_group *group, const void *data, size_t bytes)
{
    const lsi_shared *const s = find(group, data);
    const unsigned char *const own = data;
    if (s == NULL)
        return;
    for (int i = 1; i < group->size; i++) {
        const int peer = (group->rank + i) % group->size;
        const ptrdiff_t ranks = (ptrdiff_t)peer - group->rank;
        const ptrdiff_t away = ranks * (ptrdiff_t)s->stride;
        pushing p = {(unsigned char *)s->base +
                         (own - (unsigned char *)s->base) + away,
                     own};
        lsi_parallel_for(bytes, PUSH_GRAIN, push_part, &p);
        group->counters->bytes_sent += bytes;
    }
}

void lsi_shared_discard(const ls_group *group, const void *data, size_t bytes)
{
    if (group->net != NULL)
        group = group->net->local;
    const lsi_shared *const s = find(group, data);
    if (s != NULL)
        group->memory.node->transport->discard(
            group->memory.node,
            s->offset + (uint64_t)((uintptr_t)data - (uintptr_t)s->base),
            bytes);
}

/* ---- freeing ------------------------------------------------------------- */

static void free_here(ls_group *group, const lsi_shared *found)
{
    lsi_shared *mine = group->memory.shared;
    while (mine != found)
        mine = mine->next;
    let_go(group, mine);
}

ls_status ls_shared_free(ls_group *group, void **data)
{
    LS_NEED(group);
    LS_NEED(data);
    if (*data == NULL)
        return LS_OK;
    lsi_call call = {.operation = LSI_OP_SHARED_FREE};
    ls_group *here = group->net == NULL ? group : group->net->local;
    const lsi_shared *found = find(here, *data);
    if (found == NULL)
        return lsi_refuse(
            group, &call,
            lsi_fail(LS_ERR_ARGUMENT,
                     "ls_shared_free of memory that ls_shared_alloc did not "
                     "return for this group"));
    call.count = found->id;
    const ls_status status = lsi_agree(group, &call, LS_OK);
    if (status != LS_OK && !lsi_has_failed(group))
        return status; /* a rank keeps its part, so all do */
    free_here(here, found);
    *data = NULL;
    return status;
}

void lsi_shared_forget(ls_group *group, bool is_member)
{
    while (group->memory.shared != NULL)
        (is_member ? let_go : detach)(group, group->memory.shared);
}

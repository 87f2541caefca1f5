/*
 * Buffers that every rank of the node maps. An allocation is one range of the
 * job's memory with one part a rank, and all ranks map all of it.
 */
#include "comm/node/shared.h"

#include <assert.h>
#include <sys/mman.h>

#include "base/error.h"
#include "base/memory.h"
#include "comm/node/copy.h"
#include "comm/node/space.h"
#include "comm/node/transport.h"
#include "comm/state/channels.h"

/* A token names an allocation and a byte of the rank's part of it. */
enum { OFFSET_BITS = 44, ID_BITS = 64 - OFFSET_BITS };

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

void lsi_shared_choose_id(ls_group *group)
{
    const uint64_t mask = ((uint64_t)1 << ID_BITS) - 1;
    do
        group->memory.shared_id = (group->memory.shared_id + 1) & mask;
    while (group->memory.shared_id == 0 ||
           find_id(group, group->memory.shared_id) != NULL);
}

const lsi_shared *lsi_shared_find(const ls_group *group, const void *data)
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
    const lsi_shared *s = lsi_shared_find(group, data);
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
    assert((token & (((uint64_t)1 << OFFSET_BITS) - 1)) < s->stride);
    return s->base + (size_t)rank * s->stride +
           (token & (((uint64_t)1 << OFFSET_BITS) - 1));
}

/* ---- making and dropping ------------------------------------------------- */

lsi_shared_shape lsi_shared_shape_of(const ls_group *group, size_t bytes)
{
    const size_t unit = bytes >= LSI_PAGE ? LSI_PAGE : LSI_LINE;
    const size_t stride = (bytes / unit + 1) * unit;
    const size_t all = (size_t)group->size * stride + sizeof(lsi_hold);
    return (lsi_shared_shape){bytes, stride,
                              (all + LSI_PAGE - 1) / LSI_PAGE * LSI_PAGE};
}

void lsi_shared_disown(ls_group *group, lsi_shared *shared)
{
    lsi_shared **link = &group->memory.shared;
    while (*link != shared)
        link = &(*link)->next;
    *link = shared->next;
    lsi_memory_discharge(shared->stride, LS_MEMORY_COMM);
    lsi_free(shared);
}

void lsi_shared_detach(ls_group *group, lsi_shared *shared)
{
    void *const base = shared->base;
    const size_t mapped = shared->mapped;
    lsi_shared_disown(group, shared);
    group->memory.node->transport->unmap(group->memory.node, base, mapped);
}

void lsi_shared_let_go(ls_group *group, lsi_shared *shared)
{
    const uint64_t offset = shared->offset;
    const size_t mapped = shared->mapped;
    const bool last = lsi_space_let_go(shared->hold, group->size);
    lsi_shared_detach(group, shared);
    if (last)
        lsi_space_free(group, offset, mapped);
}

ls_status lsi_shared_attach(ls_group *group, uint64_t offset,
                            lsi_shared_shape made)
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
    if (made.mapped >= LSI_HUGE_PAGE)
        (void)madvise(base, made.mapped, MADV_HUGEPAGE);
    unsigned char *behind =
        (unsigned char *)base + (size_t)group->size * made.stride;
    lsi_shared *shared = block;
    assert(find_id(group, group->memory.shared_id) == NULL);
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

/* Pages that two small parts have in common are reserved twice. */
ls_status lsi_shared_reserve(const ls_group *group, const lsi_shared *shared)
{
    const size_t begin = (size_t)group->rank * shared->stride;
    const size_t from = begin / LSI_PAGE * LSI_PAGE;
    const size_t to =
        (begin + shared->stride + LSI_PAGE - 1) / LSI_PAGE * LSI_PAGE;
    assert(to <= shared->mapped);
    return group->memory.node->transport->reserve(
        group->memory.node, shared->offset + from, shared->base + from,
        to - from);
}

void *ls_shared_peer(const ls_group *group, const void *data, int rank)
{
    if (group == NULL || data == NULL || rank < 0 || rank >= group->size)
        return NULL;
    const ls_group *here = group->channels.local;
    const int local = group->channels.peer[rank].local_rank;
    const lsi_shared *s = lsi_shared_find(here, data);
    if (s == NULL || local < 0)
        return NULL;
    const size_t offset = (size_t)((uintptr_t)data - (uintptr_t)s->base) -
                          (size_t)here->rank * s->stride;
    return s->base + (size_t)local * s->stride + offset;
}

void *lsi_shared_first_here(const ls_group *group, const void *data)
{
    void *part = NULL;
    for (int r = 0; part == NULL && r < group->size; r++)
        part = ls_shared_peer(group, data, r);
    return part;
}

/* ---- pushing ------------------------------------------------------------- */

void lsi_shared_push(const ls_group *group, const void *data, size_t bytes)
{
    const lsi_shared *const s = lsi_shared_find(group, data);
    const ptrdiff_t at = s == NULL ? 0 : (const unsigned char *)data - s->base;
    for (int i = 1; s != NULL && i < group->size; i++) {
        const int peer = (group->rank + i) % group->size;
        const ptrdiff_t ranks = (ptrdiff_t)peer - group->rank;
        lsi_copy_past_caches(s->base + at + ranks * (ptrdiff_t)s->stride, data,
                             bytes);
    }
}

void lsi_shared_pushed(const ls_group *group, size_t bytes)
{
    group->counters->bytes_sent += (uint64_t)(group->size - 1) * bytes;
}

void lsi_shared_discard(const ls_group *group, const void *data, size_t bytes)
{
    group = group->channels.local;
    const uintptr_t at = (uintptr_t)data;
    const lsi_shared *s = buffers(group);
    while (s != NULL &&
           (at < (uintptr_t)s->base || at - (uintptr_t)s->base >= s->mapped))
        s = s->next;
    if (s != NULL)
        group->memory.node->transport->discard(
            group->memory.node,
            s->offset + (uint64_t)((uintptr_t)data - (uintptr_t)s->base),
            bytes);
}

void lsi_shared_forget(ls_group *group, bool is_member)
{
    while (group->memory.shared != NULL)
        (is_member ? lsi_shared_let_go
                   : lsi_shared_detach)(group, group->memory.shared);
}

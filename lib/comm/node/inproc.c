/*
 * Ranks as threads of one process. A range of the job's memory is mapped once
 * and has the same address for all ranks. So tools that follow addresses, such
 * as the thread sanitizer, see what the ranks do to each other.
 */
#include <assert.h>
#include <errno.h>
#include <pthread.h>

#include "base/cpu.h"
#include "base/error.h"
#include "base/held.h"
#include "base/memory.h"
#include "base/newer_kernel.h"
#include "comm/node/transport.h"
#include "comm/state/state.h"

typedef struct range {
    struct range *next;
    uint64_t offset;
    size_t bytes;
    void *address;
    int users;
} range;

typedef struct inproc_node {
    lsi_node_memory base;
    pthread_mutex_t lock; /* of the list */
    range *ranges;
} inproc_node;

static inproc_node *inproc(lsi_node_memory *node)
{
    return (inproc_node *)(void *)node;
}

static ls_status add_range(inproc_node *node, uint64_t offset, size_t bytes,
                           range **out)
{
    range *added = NULL;
    assert(lsi_mutex_held(&node->lock));
    LS_TRY(lsi_alloc(&added, sizeof(range), LS_MEMORY_COMM, "a shared range"));
    void *address = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address == MAP_FAILED) {
        lsi_free(added);
        return lsi_fail_errno(LS_ERR_MEMORY, "cannot map %zu bytes of memory",
                              bytes);
    }
    *added = (range){node->ranges, offset, bytes, address, 0};
    node->ranges = added;
    *out = added;
    return LS_OK;
}

static ls_status inproc_map(lsi_node_memory *base, uint64_t offset,
                            size_t bytes, void **out)
{
    inproc_node *node = inproc(base);
    ls_status status = LS_OK;
    pthread_mutex_lock(&node->lock);
    range *found = node->ranges;
    while (found != NULL && found->offset != offset)
        found = found->next;
    if (found == NULL)
        status = add_range(node, offset, bytes, &found);
    if (status == LS_OK) {
        found->users++;
        *out = found->address;
    }
    pthread_mutex_unlock(&node->lock);
    return status;
}

/* Kernels before 5.14 cannot reserve private memory; the call does nothing. */
static ls_status inproc_reserve(lsi_node_memory *node, uint64_t offset,
                                void *address, size_t bytes)
{
    (void)node;
    (void)offset;
    if (madvise(address, bytes, MADV_POPULATE_WRITE) == 0 || errno == EINVAL)
        return LS_OK;
    return lsi_fail(LS_ERR_MEMORY,
                    "a shared buffer: the system cannot provide %zu bytes for "
                    "one rank's part",
                    bytes);
}

static range **find(inproc_node *node, const void *address)
{
    range **link = &node->ranges;
    assert(lsi_mutex_held(&node->lock));
    while ((*link)->address != address)
        link = &(*link)->next;
    return link;
}

static bool inproc_leave(lsi_node_memory *base, void *address)
{
    inproc_node *node = inproc(base);
    pthread_mutex_lock(&node->lock);
    range **link = find(node, address), *found = *link;
    const bool last = found->users == 1;
    if (last) {
        *link = found->next;
        lsi_free(found);
    }
    pthread_mutex_unlock(&node->lock);
    return last;
}

/* Users of a range may have mapped only a part of it. */
static void inproc_unmap(lsi_node_memory *base, void *address, size_t bytes)
{
    inproc_node *node = inproc(base);
    (void)bytes;
    pthread_mutex_lock(&node->lock);
    range **link = find(node, address), *found = *link;
    assert(found->users > 0 && bytes <= found->bytes);
    if (--found->users == 0) {
        *link = found->next;
        munmap(address, found->bytes);
        lsi_free(found);
    }
    pthread_mutex_unlock(&node->lock);
}

/* The address of a part of a range that is mapped, or NULL. */
static char *address_of(const inproc_node *node, uint64_t offset, size_t bytes)
{
    const range *at = node->ranges;
    assert(lsi_mutex_held(&node->lock));
    while (at != NULL && (offset < at->offset || bytes > at->bytes ||
                          offset - at->offset > at->bytes - bytes))
        at = at->next;
    return at != NULL ? (char *)at->address + (offset - at->offset) : NULL;
}

/*
 * The range may still be mapped. The address space is large enough to use no
 * address twice.
 */
static bool inproc_discard(lsi_node_memory *base, uint64_t offset, size_t bytes)
{
    inproc_node *node = inproc(base);
    pthread_mutex_lock(&node->lock);
    char *const address = address_of(node, offset, bytes);
    if (address != NULL)
        (void)madvise(address, bytes, MADV_DONTNEED);
    pthread_mutex_unlock(&node->lock);
    return false;
}

/* A thread cannot die alone. */
static bool inproc_alive(lsi_node_memory *node, int rank)
{
    (void)node;
    (void)rank;
    return true;
}

static void inproc_destroy(lsi_node_memory *base)
{
    pthread_mutex_destroy(&inproc(base)->lock);
    lsi_free(base);
}

static const lsi_transport transport = {
    .name = "inproc",
    .channel = &lsi_channel_process,
    .one_address_space = true,
    .map = inproc_map,
    .reserve = inproc_reserve,
    .unmap = inproc_unmap,
    .leave = inproc_leave,
    .discard = inproc_discard,
    .alive = inproc_alive,
    .destroy = inproc_destroy,
};

ls_status lsi_node_memory_inproc(lsi_node_memory **out)
{
    inproc_node *node;
    LS_TRY(lsi_alloc_zeroed(&node, sizeof(inproc_node), LS_MEMORY_COMM,
                            "a group of threads"));
    node->base.transport = &transport;
    node->base.past_caches = lsi_cpu_stores_wait();
    atomic_init(&node->base.references, 1);
    node->base.job = lsi_job_number();
    pthread_mutex_init(&node->lock, NULL);
    *out = &node->base;
    return LS_OK;
}

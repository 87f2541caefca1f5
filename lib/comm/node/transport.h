/*
 * The services that the ranks of one node need: memory that all of them see,
 * and to know which ranks are alive. A node is one process's view of the job's
 * memory.
 */
#ifndef LS_COMM_NODE_TRANSPORT_H
#define LS_COMM_NODE_TRANSPORT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"
#include "comm/state/copying.h"
#include "lockstep/status.h"

typedef struct lsi_node_memory lsi_node_memory;

/* Every slot is mandatory. None may block on another rank. */
typedef struct lsi_transport {
    const char *name;
    /* How ranks that share such memory reach each other. */
    const struct lsi_channel_kind *channel;
    /* Whether the address of any memory of one rank is good for all others. */
    bool one_address_space;
    /*
     * Maps bytes [offset, offset + bytes) of the job's memory, which read as
     * zero at first. Page-aligned. *out is written on success only.
     */
    ls_status (*map)(lsi_node_memory *node, uint64_t offset, size_t bytes,
                     void **out);
    /*
     * Allocates the pages of a mapped part, so that touching it cannot fail.
     * Page-aligned; `offset` is the part's place in the job's memory.
     */
    ls_status (*reserve)(lsi_node_memory *node, uint64_t offset, void *address,
                         size_t bytes);
    /* Undoes one map; the address and size are those of that call. */
    void (*unmap)(lsi_node_memory *node, void *address, size_t bytes);
    /*
     * Forgets one map and leaves it to the caller, who calls munmap. False, and
     * nothing done, if other ranks of this process use it.
     */
    bool (*leave)(lsi_node_memory *node, void *address);
    /*
     * Gives back the pages of a range that no rank needs any more. Returns
     * whether the range now reads as zero and may be mapped for another use.
     */
    bool (*discard)(lsi_node_memory *node, uint64_t offset, size_t bytes);
    /* Whether the process (or thread) that is `rank` of the job still runs. */
    bool (*alive)(lsi_node_memory *node, int rank);
    /* Called once, when the last reference is dropped. Frees the node. */
    void (*destroy)(lsi_node_memory *node);
} lsi_transport;

/* The part that all kinds of node begin with. */
struct lsi_node_memory {
    const lsi_transport *transport;
    atomic_int references;
    uint64_t job; /* no other job has this number; the same on all ranks */
    /* Written by the first group, before any other. */
    lsi_copying copying;
    bool past_caches; /* whether lsi_copy_out bypasses the caches */
    char *lines;      /* of the machine's selection table, or NULL */
};

static inline lsi_node_memory *lsi_node_memory_share(lsi_node_memory *node)
{
    atomic_fetch_add(&node->references, 1);
    return node;
}

static inline void lsi_node_memory_release(lsi_node_memory *node)
{
    if (atomic_fetch_sub(&node->references, 1) != 1)
        return;
    lsi_free(node->lines);
    node->transport->destroy(node);
}

/* A number for a new job. */
uint64_t lsi_job_number(void);

/* ---- the kinds of node --------------------------------------------------- */

/* The memory of one process, for threads that play ranks. */
ls_status lsi_node_memory_inproc(lsi_node_memory **out);

/*
 * Memory of processes. Takes over a memfd that all processes of the job hold
 * (closed on failure too) and marks the caller as `rank`, alive until its
 * process ends.
 */
ls_status lsi_node_memory_shm(int memfd, int rank, lsi_node_memory **out);

/* A new file for a job, large enough for ever and empty. */
ls_status lsi_shm_create(int *memfd);

#endif

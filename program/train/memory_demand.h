/*
 * Checks whether there is enough memory for what the ranks of a machine are
 * about to allocate together. The kernel overcommits: every rank's allocation
 * succeeds, and the OOM killer ends one of them when all use their memory.
 */
#ifndef LS_TRAIN_MEMORY_DEMAND_H
#define LS_TRAIN_MEMORY_DEMAND_H

#include <stdbool.h>

#include "lockstep/group.h"
#include "model/parallel/layer_sizes.h"
#include "model/parallel/strategy.h"

/* Bytes, of the ranks of one machine together. */
typedef struct lsi_memory_demand {
    int64_t needed, available;
    int64_t gathered; /* part of `needed`: weights of other nodes */
} lsi_memory_demand;

static inline bool lsi_memory_demand_fits(lsi_memory_demand room)
{
    return room.needed <= room.available;
}

/* The properties of a training on which its memory depends. */
typedef struct lsi_memory_plan {
    const lsi_strategy *strategy;
    int64_t parameters;
    int moments;            /* numbers that the optimizer keeps per parameter */
    bool rounded;           /* products are of a half type */
    int slices;             /* of a rank's batch; 0: 1 */
    lsi_layer_sizes layers; /* for `fsdp` over several nodes; none: unknown */
    size_t ahead;           /* layers that it gathers ahead of use */
    int replicas;           /* nodes with the same weights; 0: 1 */
    uint64_t bucket;        /* most bytes of a bucket; 0: not counted */
} lsi_memory_plan;

/*
 * The least memory for weights, gradients and the optimizer's state on this
 * rank's machine (docs/concepts/parallel.md), while they are made or later.
 * `available` is 0. Local.
 */
lsi_memory_demand lsi_memory_demand_of(const ls_group *group,
                                       const lsi_memory_plan *wish);

/*
 * Replaces *room, the demand of this machine, by that of the machine with the
 * least memory to spare. `budget` bytes are available, or if that is 0 most of
 * what the machine and its limits leave. Call it while no large allocation is
 * untouched. Collective.
 */
ls_status lsi_memory_demand_ask(ls_group *group, int64_t budget,
                                lsi_memory_demand *room);

/*
 * LS_ERR_MEMORY, with both numbers. If room.gathered is not 0, the message also
 * says which --prefetch-layers or number of nodes would do.
 */
ls_status lsi_memory_demand_fail(const ls_group *group, lsi_memory_demand room,
                                 const lsi_memory_plan *plan, const char *what);

#endif

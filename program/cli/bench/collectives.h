/*
 * The collectives for `lockstep bench`: how much data they take, how they are
 * called, their right results, and how their bandwidth is counted.
 */
#ifndef LS_CLI_BENCH_COLLECTIVES_H
#define LS_CLI_BENCH_COLLECTIVES_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/bench/pattern.h"
#include "lockstep/group.h"

/* One way to call a collective. */
typedef struct lsi_exercise {
    ls_group *group;
    lsi_pattern *pattern;
    unsigned char *send, *recv; /* whole buffers; the same if in place */
    size_t count;               /* elements of a block */
    ls_dtype dtype;
    ls_reduce_op op;
    int root;
} lsi_exercise;

typedef struct lsi_bench_collective {
    const char *name;   /* "all-reduce" */
    const char *select; /* in the selection table; NULL if it is not there */
    bool reduces, has_root, has_data;
    bool out_of_place, in_place; /* what is possible */
    /* Blocks in the buffers: one, or one for each rank. */
    bool sends_blocks, receives_blocks;
    ls_status (*run)(const lsi_exercise *x);
    /* Elements that are wrong on this rank, after run. */
    size_t (*wrong)(const lsi_exercise *x);
    /*
     * Bus bandwidth over algorithm bandwidth, as nccl-tests define it: the
     * traffic of the links with any algorithm.
     */
    double (*bus_factor)(int ranks);
} lsi_bench_collective;

/* The one with that name, such as "all-reduce"; it must exist. */
const lsi_bench_collective *lsi_bench_collective_find(const char *name);

/* Fills the buffers with this rank's data; where results go, with others. */
void lsi_bench_collective_fill(const lsi_bench_collective *c,
                               const lsi_exercise *x);

#endif

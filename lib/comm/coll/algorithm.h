/*
 * The algorithms, one for each row of algorithms.def. An algorithm's file
 * explains its steps, their cost and their needs.
 */
#ifndef LS_COMM_COLL_ALGORITHM_H
#define LS_COMM_COLL_ALGORITHM_H

#include "comm/core/engine.h"
#include "comm/state/algorithm.h"
#include "comm/state/state.h"

/* A row declares its functions. */
#define X(operation, name, needs, run, more)                                   \
    ls_status run(lsi_collective *op);                                         \
    more
#define AHEAD(function)         bool function(lsi_collective *op);
#define SCRATCH(function)       size_t function(const lsi_collective *op);
#define ON_A_NODE(from, to)     /* nothing to declare */
#define BETWEEN_NODES(from, to) /* nothing to declare */
#define EVERYWHERE(from, to)    /* nothing to declare */
#define IN_CELLS                /* nothing to declare */
#define OWN_ORDER               /* nothing to declare */
#define BY_RANK                 /* nothing to declare */
#define NONE                    /* nothing to declare */
#include "comm/coll/algorithms.def"
#undef X
#undef AHEAD
#undef SCRATCH
#undef ON_A_NODE
#undef BETWEEN_NODES
#undef EVERYWHERE
#undef IN_CELLS
#undef OWN_ORDER
#undef BY_RANK
#undef NONE

/* All rows, from 0; NULL after the last. */
const lsi_algorithm *lsi_algorithm_at(int index);

/* The algorithm with that name for an operation, or NULL. */
const lsi_algorithm *lsi_algorithm_find(lsi_operation operation,
                                        const char *name, size_t length);

/* "flat, direct, staged": those of an operation. Returns text. */
const char *lsi_algorithm_names(lsi_operation operation, char *text,
                                size_t bytes);

#endif

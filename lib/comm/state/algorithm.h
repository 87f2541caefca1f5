/*
 * An algorithm for a collective.
 */
#ifndef LS_COMM_STATE_ALGORITHM_H
#define LS_COMM_STATE_ALGORITHM_H

#include "comm/state/state.h"

/* The sizes that it serves by default; bytes, end exclusive. */
typedef struct lsi_default_sizes {
    bool on_a_node, between_nodes; /* kinds of groups */
    size_t begin, end;
} lsi_default_sizes;

struct lsi_algorithm {
    const char *name;
    lsi_operation operation;
    /* The data travels in the cells, packed before the arrival is published. */
    bool in_cells;
    /* Does not fold over all ranks; a deterministic group does not use it. */
    bool own_order;
    /* Folds over all ranks in every group, also where others fold by nodes. */
    bool by_rank;
    /* LSI_PATH bits that every rank must offer; AHEAD: must have begun. */
    uint64_t needs;
    /*
     * Begins before the other ranks have arrived, if it can; NULL for none.
     * Called only if this rank's offer rules out all candidates before.
     */
    bool (*ahead)(lsi_collective *op);
    /*
     * Called when all ranks have arrived and agree; again and again while it
     * returns LS_IN_PROGRESS, with op->step 0 the first time. Must not wait.
     */
    ls_status (*run)(lsi_collective *op);
    /* Private memory that it uses through op->scratch; NULL for none. */
    size_t (*scratch)(const lsi_collective *op);
    lsi_default_sizes serves;
};

#endif

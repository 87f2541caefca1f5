/*
 * Memory that the library allocates on a rank that trains a language model with
 * AdamW, by kind. Weights, gradients and state follow from the strategy
 * (docs/concepts/parallel.md). Activations follow from the tape's share of each
 * token and from the temporary memory at the peak of backward
 * (docs/how-to/plan.md).
 */
#ifndef LS_PLAN_MEMORY_H
#define LS_PLAN_MEMORY_H

#include "lockstep/status.h"
#include "plan/model.h"

/* Sizes in bytes; doubles, since models may have any size. */
typedef struct lsi_plan_memory {
    double parameters; /* weights, and half-type copies for products */
    double gathered;   /* the rank's share of what its node gathers at a time */
    double gradients, state, activations;
    double other; /* workspace, communication, the tape */
    double total; /* peak of a step; making the weights takes less */
} lsi_plan_memory;

lsi_plan_memory lsi_plan_memory_of(const lsi_plan_run *run);

/*
 * LS_ERR_ARGUMENT for a run that cannot be planned. It needs a batch, ranks,
 * and nodes with equal numbers of ranks.
 */
ls_status lsi_plan_check(const lsi_plan_run *run);

#endif

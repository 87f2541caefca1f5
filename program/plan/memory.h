/*
 * Memory of a rank that trains a language model with AdamW, by kind: what the
 * library allocates. Weights, gradients and state follow from the strategy
 * (docs/concepts/parallel.md); activations from what the tape keeps of each
 * token and what is there besides when backward is at its height
 * (docs/how-to/plan.md).
 */
#ifndef LS_PLAN_MEMORY_H
#define LS_PLAN_MEMORY_H

#include "lockstep/status.h"
#include "plan/model.h"

/* Bytes; doubles, as models may be of any size. */
typedef struct lsi_plan_memory {
    double parameters; /* and what products have of them in a half type */
    double gradients, state, activations;
    double other; /* workspace, communication, the tape */
    double total; /* the peak of a step */
    double start; /* while the weights are made and divided */
} lsi_plan_memory;

lsi_plan_memory lsi_plan_memory_of(const lsi_plan_run *run);

/*
 * LS_ERR_ARGUMENT unless there is something to plan: a batch, ranks and nodes
 * of which each has as many ranks.
 */
ls_status lsi_plan_check(const lsi_plan_run *run);

#endif

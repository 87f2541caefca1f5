/*
 * Weights that a node gathers under `fsdp` over several nodes
 * (model/parallel/gather.h). A window moves over the layers, forward and then
 * backward. A tied table stays from its first use to the step. The layers that
 * the window has at the turn are gathered once for both passes.
 */
#ifndef LS_PLAN_GATHERS_H
#define LS_PLAN_GATHERS_H

#include "plan/model.h"

/* Bytes; all 0 unless weights are divided over nodes. */
typedef struct lsi_plan_gathers {
    double held; /* at most at a time, on the node that holds the most */
    double forward, backward; /* that a node receives; mean of all nodes */
    double first;             /* part of `forward` that the first layer needs */
} lsi_plan_gathers;

lsi_plan_gathers lsi_plan_gathers_of(const lsi_plan_run *run);

/* Whether the weights are divided over nodes. */
bool lsi_plan_divides_nodes(const lsi_plan_run *run);

/* Nodes that keep the same part of the weights, if they are divided. */
int64_t lsi_plan_replicas(const lsi_plan_run *run);

#endif

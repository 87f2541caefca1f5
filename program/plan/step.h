/*
 * How long a step takes on ranks that all do the same: computation by rates,
 * or as it was measured, and the collectives of the strategy, each when its
 * gradients are final.
 */
#ifndef LS_PLAN_STEP_H
#define LS_PLAN_STEP_H

#include "plan/crossing.h"
#include "plan/model.h"

/* What one rank has while all ranks of its node compute. */
typedef struct lsi_plan_device {
    double flops;  /* of products, a second */
    double memory; /* bytes a second */
} lsi_plan_device;

/* Seconds of a step of one rank. */
typedef struct lsi_plan_compute {
    double forward, backward;
    double optimizer; /* of all parameters */
} lsi_plan_compute;

/* Floating-point operations of products, forward alone, of one rank. */
double lsi_plan_forward_flops(const lsi_plan_run *run);

/*
 * By rates: products at `flops`, what lies between them and AdamW at `memory`.
 * `activations`: bytes (lsi_plan_memory_of).
 */
lsi_plan_compute lsi_plan_compute_of(const lsi_plan_run *run,
                                     lsi_plan_device device,
                                     double activations);

typedef struct lsi_plan_step {
    double forward, backward, optimizer;
    double communication; /* all collectives, each by itself */
    double exposed;       /* what of it the step is longer for */
    double pages;         /* of gradients that a rank gives back and rewrites */
    double paging;        /* seconds of the step for them */
    double step;
    double link_bytes; /* that leave a node */
    double rank_bytes; /* that leave a rank: for others, wherever they are */
    int64_t buckets, collectives;
    /* Tokens of a rank from which communication takes less than backward. */
    double tokens_to_hide;
    /* Bytes of buckets that hide most: sqrt(s w o); 0: one rank. */
    double best_bucket;
} lsi_plan_step;

lsi_plan_step lsi_plan_step_of(const lsi_plan_run *run,
                               const lsi_plan_place *place,
                               lsi_plan_compute compute);

#endif

/*
 * The time of a step on ranks that all do the same. Computation follows from
 * rates or from a measurement. Each collective of the strategy starts when its
 * gradients are final. Weights that nodes gather use the link while the ranks
 * compute.
 */
#ifndef LS_PLAN_STEP_H
#define LS_PLAN_STEP_H

#include "plan/crossing.h"
#include "plan/model.h"

/* Rates of one rank while all ranks of its node compute. */
typedef struct lsi_plan_device {
    double flops;  /* operations of products a second */
    double memory; /* bytes a second */
} lsi_plan_device;

/* Seconds of a step of one rank. */
typedef struct lsi_plan_compute {
    double forward, backward;
    double optimizer; /* update of all parameters */
} lsi_plan_compute;

/* Floating-point operations of products in the forward pass of one rank. */
double lsi_plan_forward_flops(const lsi_plan_run *run);

/*
 * By rates: products at `flops`, the operations between them and AdamW at
 * `memory`. `activations`: bytes (lsi_plan_memory_of).
 */
lsi_plan_compute lsi_plan_compute_of(const lsi_plan_run *run,
                                     lsi_plan_device device,
                                     double activations);

typedef struct lsi_plan_step {
    double forward, backward, optimizer;
    double communication; /* seconds of all collectives, each by itself, and of
                             gathering weights */
    double exposed;       /* seconds by which they lengthen the step */
    double pages;  /* pages of gradients that a rank gives back and rewrites */
    double paging; /* seconds of the step for these pages */
    double step;
    double link_bytes; /* bytes that leave a node */
    double gathered;   /* bytes of it that are weights on their way to layers */
    double rank_bytes; /* bytes that leave a rank for other ranks on any node */
    int64_t buckets, collectives;
    /* Seconds of computation that overlap with communication. */
    double hides;
    /* Tokens of a rank from which communication takes less than that. */
    double tokens_to_hide;
    /* Bytes of buckets that hide most: sqrt(s w o); 0: one rank. */
    double best_bucket;
} lsi_plan_step;

lsi_plan_step lsi_plan_step_of(const lsi_plan_run *run,
                               const lsi_plan_place *place,
                               lsi_plan_compute compute);

#endif

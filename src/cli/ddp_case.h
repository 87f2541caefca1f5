/*
 * Measuring training steps of one model under one strategy of data
 * parallelism: times, waiting, traffic, memory.
 */
#ifndef LS_CLI_DDP_CASE_H
#define LS_CLI_DDP_CASE_H

#include "cli/ddp_model.h"

/* Of a step, in seconds; means over ranks, but `step` is the slowest rank's. */
typedef struct lsi_ddp_times {
    double forward, backward, optimizer;
    double comm;     /* waiting, which is in none of the parts */
    double fraction; /* comm / step of a rank */
    double step;
} lsi_ddp_times;

typedef enum lsi_ddp_moment {
    LSI_DDP_INIT,        /* everything is made */
    LSI_DDP_BEFORE_STEP, /* since then, until the optimizer's first step */
    LSI_DDP_AFTER_STEP,  /* since then, until after it */
    LSI_DDP_MOMENTS
} lsi_ddp_moment;

/* "init", "before_step", "after_step". */
extern const char *const lsi_ddp_moment_names[LSI_DDP_MOMENTS];

/* Most bytes that this rank held at once. */
typedef struct lsi_ddp_peaks {
    int64_t parameters, gradients, state, activations, buckets, total;
} lsi_ddp_peaks;

typedef struct lsi_ddp_case {
    ls_group *group;
    const lsi_ddp_model_spec *spec;
    const char *strategy;
    double bucket_mb;
    int64_t warmup, steps;
    /* Filled in by the run. */
    lsi_ddp_model model;
    ls_ddp *ddp;
    ls_optimizer *optimizer;
    lsi_ddp_peaks peaks[LSI_DDP_MOMENTS];
    lsi_ddp_times *times;        /* [steps] */
    uint64_t bytes, collectives; /* this rank's, of the last step */
} lsi_ddp_case;

/* After an error, too, the case is to be released. Collective. */
ls_status lsi_ddp_case_run(lsi_ddp_case *c);

/* Collective. */
void lsi_ddp_case_release(lsi_ddp_case *c);

#endif

/*
 * Measuring training steps of one model under one strategy of data
 * parallelism: times, waiting, traffic, memory.
 */
#ifndef LS_CLI_BENCH_DDP_CASE_H
#define LS_CLI_BENCH_DDP_CASE_H

#include "cli/bench/bench.h"
#include "cli/bench/ddp_model.h"
#include "report/table.h"
#include "train/memory_demand.h"

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
    ls_ddp_strategy strategy;
    double bucket_mb;
    int64_t warmup, steps;
    int64_t budget; /* of the ranks of a machine; 0: what it has */
    /* Filled in by the run. */
    lsi_memory_demand room; /* needed: at least */
    bool fits;              /* whether there was memory for it; if not: */
    char reason[512];
    lsi_ddp_model model;
    ls_ddp *ddp;
    ls_optimizer *optimizer;
    lsi_ddp_peaks peaks[LSI_DDP_MOMENTS];
    lsi_ddp_times *times;        /* [steps] */
    double *slowest;             /* [steps], stored after the times */
    uint64_t bytes, collectives; /* this rank's, of the last step */
} lsi_ddp_case;

/*
 * Does not start the case if memory will not suffice, and ends it if memory
 * runs out. Both are LS_OK with !c->fits, and c->reason says why. The caller
 * releases the case after an error, too. Collective.
 */
ls_status lsi_ddp_case_run(lsi_ddp_case *c);

/* Memory demand in a bench: the columns, their values, and the help. */
#define LSI_DDP_DEMAND_COLUMNS                                                 \
    LSI_COLUMN(INT, "needed_bytes", "Needed", .wide = true, .width = 11),      \
        LSI_COLUMN(INT, "available_bytes", "Available", .wide = true,          \
                   .width = 11),                                               \
        LSI_COLUMN(TEXT, "status", "Status", .width = 13)
#define LSI_DDP_DEMAND_HELP                                                    \
    "If a strategy does not fit in memory, its status is 'out of memory'. "    \
    "With --wide, column Needed is the smallest amount of memory that all "    \
    "ranks of one machine need together."
#define LSI_DDP_MOMENTS_HELP                                                   \
    "three moments: after set-up, until the optimizer's first step, and "      \
    "during this step."

void lsi_ddp_case_record_demand(const lsi_ddp_case *c, lsi_table *table);

/* Reports why there was not enough memory. */
void lsi_ddp_case_note_reason(const lsi_ddp_case *c, lsi_bench_common *common);

/* Collective. */
void lsi_ddp_case_release(lsi_ddp_case *c);

#endif

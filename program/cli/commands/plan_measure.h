/*
 * Measurements for comparison with plans: short runs of this program's benches
 * on this machine, with the plan's number of ranks at once. Call it from a
 * process with one thread.
 */
#ifndef LS_CLI_COMMANDS_PLAN_MEASURE_H
#define LS_CLI_COMMANDS_PLAN_MEASURE_H

#include "cli/commands/machine_peaks.h"
#include "lockstep/status.h"
#include "plan/step.h"

/* Ranks of a node. */
enum { LSI_PLAN_MOST_MEASURED = 64 };

/* A model and its training, as values of the benches' flags. */
typedef struct lsi_plan_case {
    const char *model, *dtype;
    int64_t layers, d_model, heads, d_ff, vocabulary; /* 0: as the size */
    int64_t batch, context;
    int ranks;
} lsi_plan_case;

/* Rates of the machine, and times of the model on `here` ranks of a node. */
typedef struct lsi_plan_known {
    lsi_machine_rates rates;
    int64_t here; /* 0: no ranks yet */
    lsi_plan_compute compute;
    double meeting, memory;
    double page; /* 0: not yet */
} lsi_plan_known;

/*
 * Measures the computation of ranks in a step of one job under `flat`: an
 * optimizer is slower where gradients are in memory of all ranks. Measures at
 * most as many ranks as CPUs: with more, each gets its share of that.
 * `gradients`: bytes of a rank.
 */
ls_status lsi_plan_measure_compute(const lsi_plan_case *c, double gradients,
                                   lsi_plan_compute *out);

/*
 * Measures the seconds of a meeting of `ranks` ranks, and the bytes a second
 * that each reads and writes in an all-reduce of `bytes` bytes in shared
 * memory.
 */
ls_status lsi_plan_measure_meeting(int ranks, double bytes, double *meeting,
                                   double *memory);

/*
 * Measures the CPU seconds to give back a page of shared memory, write it again
 * and read it through another mapping. A busy machine does not disturb this.
 */
ls_status lsi_plan_measure_page(double *seconds);

/* A step under a strategy: seconds, and rank 0's peak of memory. */
ls_status lsi_plan_measure_step(const lsi_plan_case *c, const char *strategy,
                                const char *bucket_mb, double *seconds,
                                double *bytes);

#endif

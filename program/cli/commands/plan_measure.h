/*
 * What plans are held against: short runs of this program's benches on this
 * machine, as many ranks at once as the plan is for. Call it from a process
 * with one thread.
 */
#ifndef LS_CLI_COMMANDS_PLAN_MEASURE_H
#define LS_CLI_COMMANDS_PLAN_MEASURE_H

#include "cli/commands/machine_peaks.h"
#include "lockstep/status.h"
#include "plan/step.h"

/* Ranks of a node. */
enum { LSI_PLAN_MOST_MEASURED = 64 };

/* A model and what it is trained with, as flags of the benches say it. */
typedef struct lsi_plan_case {
    const char *model, *dtype;
    int64_t layers, d_model, heads, d_ff, vocabulary; /* 0: as the size */
    int64_t batch, context;
    int ranks;
} lsi_plan_case;

/* What was measured: the machine, and the model on so many ranks of a node. */
typedef struct lsi_plan_known {
    lsi_machine_rates rates;
    int64_t here; /* 0: no ranks yet */
    lsi_plan_compute compute;
    double meeting, memory;
    double page; /* 0: not yet */
} lsi_plan_known;

/*
 * What ranks compute in a step of one job under `flat`: where gradients lie in
 * memory of all of them, an optimizer is slower. Not more ranks than CPUs: with
 * more, each gets its share of that. `gradients`: bytes of a rank.
 */
ls_status lsi_plan_measure_compute(const lsi_plan_case *c, double gradients,
                                   lsi_plan_compute *out);

/*
 * What a meeting of so many ranks takes, and bytes a second that each reads and
 * writes in an all-reduce of shared memory, of so many bytes.
 */
ls_status lsi_plan_measure_meeting(int ranks, double bytes, double *meeting,
                                   double *memory);

/*
 * What a page of shared memory takes that is given back, written again and read
 * through another mapping, by CPU time: also on a busy machine.
 */
ls_status lsi_plan_measure_page(double *seconds);

/* A step under a strategy: seconds, and rank 0's peak of memory. */
ls_status lsi_plan_measure_step(const lsi_plan_case *c, const char *strategy,
                                const char *bucket_mb, double *seconds,
                                double *bytes);

#endif

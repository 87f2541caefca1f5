/*
 * The steps of each rank, for profile.c: their places, and the slowest ranks.
 */
#ifndef LS_REPORT_PROFILE_STEPS_H
#define LS_REPORT_PROFILE_STEPS_H

#include "report/profile.h"

typedef struct lsi_profile_step {
    uint64_t number;
    int64_t begin, end;
    uint16_t thread;
} lsi_profile_step;

/* ns of a step by phase, without waiting for other ranks. */
typedef struct lsi_profile_times {
    int64_t busy[LSI_PROFILE_PHASES];
} lsi_profile_times;

typedef struct lsi_profile_steps {
    lsi_profile_step *step;
    lsi_profile_times *times; /* one for each step, zeros at first */
    size_t n;
    size_t first; /* index of the first step after the warm-up */
    bool none;    /* no steps found: the whole trace counts as one */
} lsi_profile_steps;

/* The error of a profile without enough memory. */
ls_status lsi_profile_no_memory(void);

/*
 * Finds the steps that the trace names. If it names none, a step lasts from the
 * end of one optimizer call to the end of the next. Without an optimizer, the
 * whole trace is one step.
 */
ls_status lsi_profile_find_steps(const lsi_timeline_process *process,
                                 int64_t warmup, lsi_profile_steps *out);
void lsi_profile_release_steps(lsi_profile_steps *steps);

/*
 * Finds profile->slowest. steps[i] are the steps of the timeline's process i.
 */
ls_status lsi_profile_compare(const lsi_timeline *timeline,
                              const lsi_profile_steps *steps,
                              lsi_profile *profile);

/* One step of n >= 2 ranks; `spare` has room for n numbers. */
typedef struct lsi_profile_comparison {
    const lsi_profile_times **times;
    const int *ranks;
    int64_t *spare;
    size_t n, phases;
} lsi_profile_comparison;

lsi_profile_slowest lsi_profile_slowest_of(const lsi_profile_comparison *c,
                                           uint64_t step);

#endif

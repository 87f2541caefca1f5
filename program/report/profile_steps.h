/* The steps of each rank, for profile.c: where they are, and who was slow. */
#ifndef LS_REPORT_PROFILE_STEPS_H
#define LS_REPORT_PROFILE_STEPS_H

#include "report/profile.h"

typedef struct lsi_profile_step {
    uint64_t number;
    int64_t begin, end;
    uint16_t thread;
} lsi_profile_step;

/* Of a step: by phase, without waiting for others. */
typedef struct lsi_profile_times {
    int64_t busy[LSI_PROFILE_PHASES];
} lsi_profile_times;

typedef struct lsi_profile_steps {
    lsi_profile_step *step;
    lsi_profile_times *times; /* as many, zeros at first */
    size_t n;
    size_t first; /* behind the warm-up */
    bool none;    /* there are none: all of the trace counts as one */
} lsi_profile_steps;

/*
 * Those that the trace names; if it names none, from the end of one call of the
 * optimizer to that of the next; without an optimizer, all of the trace is one.
 */
ls_status lsi_profile_find_steps(const lsi_timeline_process *process,
                                 int64_t warmup, lsi_profile_steps *out);
void lsi_profile_release_steps(lsi_profile_steps *steps);

/* Finds profile->slowest. steps[i] are those of the timeline's process i. */
ls_status lsi_profile_compare(const lsi_timeline *timeline,
                              const lsi_profile_steps *steps,
                              lsi_profile *profile);

/* One step of n ranks, two at least; `spare` has room for n numbers. */
typedef struct lsi_profile_comparison {
    const lsi_profile_times **times;
    const int *ranks;
    int64_t *spare;
    size_t n, phases;
} lsi_profile_comparison;

lsi_profile_slowest lsi_profile_slowest_of(const lsi_profile_comparison *c,
                                           uint64_t step);

#endif

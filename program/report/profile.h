/*
 * What a timeline says in numbers: kernels, phases, how much of communication
 * is hidden, and which rank was the slowest in what. Only the thread of each
 * rank that takes the steps counts, and only steps behind the warm-up.
 */
#ifndef LS_REPORT_PROFILE_H
#define LS_REPORT_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "lockstep/status.h"
#include "report/timeline.h"

/* More phases than that count as the first one. */
enum { LSI_PROFILE_PHASES = 32 };

typedef struct lsi_profile_filter {
    const char *range; /* only what lies in a span of that name, or NULL */
    const char *phase; /* only what lies in that phase itself, or NULL */
    int rank;          /* only that one; -1: all */
    int64_t warmup;    /* steps to leave out; -1: the first, unless the trace
                          says itself which are warm-up */
} lsi_profile_filter;

/* Calls of one kernel in one phase, or of all of them together. */
typedef struct lsi_profile_sum {
    uint64_t calls, bytes, work;
    int64_t ns;
} lsi_profile_sum;

typedef struct lsi_profile_kernel {
    const char *name; /* the timeline's */
    lsi_profile_sum in[LSI_PROFILE_PHASES];
} lsi_profile_kernel;

/* The slowest rank of a step: the one that waited least for others. */
typedef struct lsi_profile_slowest {
    uint64_t step;
    int rank;
    int phase;   /* in which it spent the most time over the others' median */
    int64_t ns;  /* so much */
    int64_t all; /* the same of the whole step */
} lsi_profile_slowest;

/* Inside attention. */
typedef struct lsi_profile_attention {
    lsi_profile_sum softmax, products, fused;
} lsi_profile_attention;

typedef struct lsi_profile {
    const char *phase[LSI_PROFILE_PHASES]; /* the first: outside of any */
    size_t n_phases;
    int64_t wall[LSI_PROFILE_PHASES];   /* with what is in them */
    int64_t alone[LSI_PROFILE_PHASES];  /* without phases in them, and */
    int64_t waited[LSI_PROFILE_PHASES]; /* so much of that for others */
    uint64_t entered[LSI_PROFILE_PHASES];
    const char *only_range, *only_phase; /* the filter's; NULL: whole steps */
    lsi_profile_kernel *kernel; /* that which took the most time first */
    size_t n;
    int ranks;         /* that the filter lets through, of */
    int size;          /* so many of the run, 1 or more */
    uint64_t steps;    /* of all ranks together */
    bool no_steps;     /* there are none: the whole of a trace counts as one */
    int64_t time;      /* of what the filter lets through */
    int64_t step_ns;   /* of all steps */
    int64_t under_way; /* in which a collective was, and of that */
    int64_t exposed;   /* so much in which the rank waited */
    lsi_profile_attention forward, backward;
    lsi_profile_slowest *slowest; /* of each step that several ranks took */
    size_t n_slowest;
} lsi_profile;

/* *out refers to the timeline and the filter's names. LS_ERR_NOT_FOUND if the
 * filter leaves nothing.
 */
ls_status lsi_profile_of(const lsi_timeline *timeline,
                         const lsi_profile_filter *filter, lsi_profile **out);
void lsi_profile_free(lsi_profile **profile);

/*
 * What steps are made of, as shares of their time that add up to 1. What ranks
 * wait for each other, in any phase, and the phase "gradient sync" are exposed
 * communication; the rest is in other phases or outside of any.
 */
typedef struct lsi_profile_split {
    double forward, backward, optimizer, exposed, rest;
} lsi_profile_split;

/* False of a part of the steps, and where none of the phases occurs. */
bool lsi_profile_split_of(const lsi_profile *profile, lsi_profile_split *out);

/* In all phases. */
lsi_profile_sum lsi_profile_total(const lsi_profile_kernel *kernel);

/* The phase of that name; -1: it did not occur. */
int lsi_profile_phase(const lsi_profile *profile, const char *name);

/* Whether a kernel is a matrix product or a convolution. */
bool lsi_profile_is_product(const char *kernel);

/* How fast a machine can be. */
typedef struct lsi_profile_peaks {
    double f32, bf16; /* operations a second */
    double bytes;     /* a second */
} lsi_profile_peaks;

/*
 * The share of the roofline that was reached: of min(peak, work / bytes times
 * the bandwidth), or of the bandwidth if there is no work. 0: not known.
 */
double lsi_profile_of_roofline(const char *kernel, const lsi_profile_sum *sum,
                               const lsi_profile_peaks *peaks);

/* ---- in words ------------------------------------------------------------ */

/* Which rank was the slowest most often, and where; false: one rank only. */
typedef struct lsi_profile_verdict {
    int rank, phase;
    size_t steps; /* in which both were so, of profile->n_slowest */
    double ns;    /* mean over these, over the others in that phase */
} lsi_profile_verdict;
bool lsi_profile_judge(const lsi_profile *profile, lsi_profile_verdict *out);

/* The share of communication that was hidden; -1: there was none, or nobody to
 * communicate with. */
double lsi_profile_overlap(const lsi_profile *profile);

/*
 * Answers, a paragraph each: (a) forward against the wall clock, (b) the kernel
 * with the most time, (c) what else counts, (d) the share of products, (e)
 * softmax against products; overlap; the slowest rank.
 */
enum { LSI_PROFILE_ANSWERS = 7, LSI_PROFILE_ANSWER_BYTES = 640 };
typedef struct lsi_profile_answer {
    const char *key, *title;
    char text[LSI_PROFILE_ANSWER_BYTES];
} lsi_profile_answer;

/*
 * What the kernels of a profile are of: "whole steps", "phase backward", "range
 * x". Cut if it does not fit.
 */
void lsi_profile_part(const lsi_profile *profile, char *out, size_t bytes);

void lsi_profile_answer_all(const lsi_profile *profile,
                            lsi_profile_answer out[LSI_PROFILE_ANSWERS]);

#endif

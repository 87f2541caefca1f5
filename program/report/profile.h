/*
 * Numbers of a timeline: kernels, phases, the hidden share of communication,
 * and the slowest rank of each step. Only the thread of each rank that runs the
 * steps counts, and only steps after the warm-up.
 */
#ifndef LS_REPORT_PROFILE_H
#define LS_REPORT_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "lockstep/status.h"
#include "report/timeline.h"

/* Limit of phases; further phases count as the first one. */
enum { LSI_PROFILE_PHASES = 32 };

typedef struct lsi_profile_filter {
    const char *range; /* only spans inside a span of this name, or NULL */
    const char *phase; /* only spans directly in this phase, or NULL */
    int rank;          /* count only this rank; -1: all */
    int64_t warmup;    /* steps to leave out; -1: the first, or those that the
                          trace marks as warm-up */
} lsi_profile_filter;

/* Calls of one kernel in one phase, or of all kernels together. */
typedef struct lsi_profile_sum {
    uint64_t calls, bytes, work;
    int64_t ns;
} lsi_profile_sum;

typedef struct lsi_profile_kernel {
    const char *name; /* name, owned by the timeline */
    lsi_profile_sum in[LSI_PROFILE_PHASES];
} lsi_profile_kernel;

/* Calls of one of the products of a layer. */
typedef struct lsi_profile_layer {
    const char *name;   /* shape of the weight, a space, and the layer's name;
                           owned by the timeline */
    const char *kernel; /* name of the kernel, which has the type */
    lsi_layer_pass pass;
    lsi_profile_sum sum;
    double gain; /* ns beyond those of the product rate; by
                    lsi_profile_sort_layers */
} lsi_profile_layer;

/* The slowest rank of a step: the one that waited least for other ranks. */
typedef struct lsi_profile_slowest {
    uint64_t step;
    int rank;
    int phase;  /* phase with the largest excess over the other ranks' median */
    int64_t ns; /* ns of excess in this phase */
    int64_t all; /* ns of excess in the whole step */
} lsi_profile_slowest;

/* Why ranks wait for weights that other nodes own. */
typedef enum lsi_profile_why {
    LSI_WHY_FIRST,     /* the first layer of a step */
    LSI_WHY_NOT_AHEAD, /* not asked for ahead of use */
    LSI_WHY_OWNER,     /* an owner had not begun to answer */
    LSI_WHY_LINK, /* the transfer took longer than computation before use */
    LSI_WHYS
} lsi_profile_why;

/* Waits for a layer's weights. */
typedef struct lsi_profile_gathered {
    const char *name; /* name, owned by the timeline */
    uint64_t waits;
    int64_t ns, because[LSI_WHYS];
} lsi_profile_gathered;

/* Weights that other nodes own; a rank's share of what its node gathers. */
typedef struct lsi_profile_weights {
    lsi_profile_sum gathers;            /* ns: in which one was in flight */
    int64_t waited[LSI_PROFILE_PHASES]; /* ns, by phase */
    int64_t because[LSI_WHYS];          /* ns */
    lsi_profile_gathered *layer;        /* the longest wait first */
    size_t n;
    lsi_profile_sum late; /* gathers for which ranks waited, asked for ahead of
                             use; ns: from the answer to the arrival */
    int64_t ahead;        /* ns from their requests to the waits */
} lsi_profile_weights;

/* Times inside attention. */
typedef struct lsi_profile_attention {
    lsi_profile_sum softmax, products, fused;
} lsi_profile_attention;

typedef struct lsi_profile {
    const char *phase[LSI_PROFILE_PHASES]; /* the first: outside of any phase */
    size_t n_phases;
    int64_t wall[LSI_PROFILE_PHASES];   /* ns, nested phases included */
    int64_t alone[LSI_PROFILE_PHASES];  /* ns without nested phases */
    int64_t waited[LSI_PROFILE_PHASES]; /* ns of `alone` in waits for ranks */
    uint64_t entered[LSI_PROFILE_PHASES];
    const char *only_range, *only_phase; /* of the filter; NULL: whole steps */
    lsi_profile_kernel *kernel; /* kernels, the one with the most time first */
    size_t n;
    lsi_profile_layer *layer; /* products of layers */
    size_t n_layers;
    bool has_kernels;  /* of any part of the steps that were counted */
    int ranks;         /* number of ranks that the filter accepts */
    int size;          /* number of ranks of the run, 1 or more */
    uint64_t steps;    /* steps of all ranks together */
    bool no_steps;     /* no steps found: the whole trace counts as one */
    int64_t time;      /* ns that the filter accepts */
    int64_t step_ns;   /* ns of all steps */
    int64_t under_way; /* ns in which a collective was in flight */
    int64_t exposed;   /* ns of these in which the rank waited */
    lsi_profile_attention forward, backward;
    lsi_profile_weights weights;
    lsi_profile_slowest *slowest; /* for each step that several ranks ran */
    size_t n_slowest;
} lsi_profile;

/*
 * *out refers to the timeline and the filter's names. LS_ERR_NOT_FOUND if the
 * filter leaves nothing.
 */
ls_status lsi_profile_of(const lsi_timeline *timeline,
                         const lsi_profile_filter *filter, lsi_profile **out);
void lsi_profile_free(lsi_profile **profile);

/*
 * Shares of the time of steps, which add up to 1. Exposed communication is the
 * waiting of ranks for each other in any phase, and the phase "gradient sync".
 * The remaining time is in other phases or outside of any.
 */
typedef struct lsi_profile_split {
    double forward, backward, optimizer, exposed, rest;
} lsi_profile_split;

/* False for a part of the steps, and without any of these phases. */
bool lsi_profile_split_of(const lsi_profile *profile, lsi_profile_split *out);

/* Adds a span to a sum. */
void lsi_profile_add(lsi_profile_sum *sum, const lsi_timeline_span *span);

/* Sum over all phases. */
lsi_profile_sum lsi_profile_total(const lsi_profile_kernel *kernel);

/* The index of the phase with this name; -1: it did not occur. */
int lsi_profile_phase(const lsi_profile *profile, const char *name);

/* Whether a kernel is a matrix product or a convolution. */
bool lsi_profile_is_product(const char *kernel);

/* Peak rates of a machine. */
typedef struct lsi_profile_peaks {
    double f32, bf16; /* operations a second */
    double bytes;     /* bytes a second */
} lsi_profile_peaks;

/*
 * The product rate: the highest rate of large matrix products, in operations a
 * second, of a kernel's type. Products of f16 have the rate of f32, in which
 * they are computed.
 */
double lsi_profile_product_rate(const char *kernel,
                                const lsi_profile_peaks *peaks);

/*
 * The share of the roofline that was reached: of min(peak, work / bytes times
 * the bandwidth), or of the bandwidth without work. 0: not known.
 */
double lsi_profile_of_roofline(const char *kernel, const lsi_profile_sum *sum,
                               const lsi_profile_peaks *peaks);

/*
 * The share of the product rate that a layer's product reached; 0: not known.
 * Below LSI_PROFILE_SLOW it is slow.
 */
#define LSI_PROFILE_SLOW 0.8
double lsi_profile_of_product_rate(const lsi_profile_layer *layer,
                                   const lsi_profile_peaks *peaks);

/*
 * Sets the gain of all layers, and sorts them: the largest gain first. With
 * peaks of 0 nothing can be gained, and the longest time is first.
 */
void lsi_profile_sort_layers(lsi_profile *profile,
                             const lsi_profile_peaks *peaks);

/* ---- in words ------------------------------------------------------------ */

/*
 * The rank that was slowest most often, and its phase; false with one rank
 * only.
 */
typedef struct lsi_profile_verdict {
    int rank, phase;
    size_t steps; /* of profile->n_slowest, steps in which both were slowest */
    double ns;    /* mean ns over these, above the other ranks in this phase */
} lsi_profile_verdict;
bool lsi_profile_judge(const lsi_profile *profile, lsi_profile_verdict *out);

/*
 * The hidden share of communication; -1 without communication, without kernels,
 * or with one rank only.
 */
double lsi_profile_overlap(const lsi_profile *profile);

/*
 * Answers, one paragraph each:
 * - (a) forward against the wall clock
 * - (b) the kernel with the most time
 * - (c) other kernels that matter
 * - (d) the share of products
 * - (e) softmax against products
 * - overlap
 * - gathered weights; empty without any
 * - the slowest rank
 */
enum { LSI_PROFILE_ANSWERS = 8, LSI_PROFILE_ANSWER_BYTES = 640 };
typedef struct lsi_profile_answer {
    const char *key, *title;
    char text[LSI_PROFILE_ANSWER_BYTES];
} lsi_profile_answer;

/*
 * The part of a run that the kernels of a profile cover: "whole steps", "phase
 * backward", "range x". Cut if it does not fit.
 */
void lsi_profile_part(const lsi_profile *profile, char *out, size_t bytes);

void lsi_profile_answer_all(const lsi_profile *profile,
                            lsi_profile_answer out[LSI_PROFILE_ANSWERS]);

#endif

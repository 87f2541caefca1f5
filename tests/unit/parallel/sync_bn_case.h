/*
 * One case of synchronised batch normalisation: what it should give, computed
 * in double over the rows of all ranks at once, and what the library gives.
 */
#ifndef LS_TEST_SYNC_BN_CASE_H
#define LS_TEST_SYNC_BN_CASE_H

#include "lockstep/parallel.h"

enum { BN_MAX_RANKS = 8 };

/* The terms of the loss. */
typedef enum bn_loss {
    BN_HALF_OF_EACH,  /* the first half of each rank's rows of y */
    BN_HALF_OF_TOTAL, /* the first half of all rows of y */
    BN_WEIGHTED       /* all of y, each element times a different number */
} bn_loss;

typedef struct bn_case {
    ls_sync_bn_kind kind;
    int ranks;
    int rows[BN_MAX_RANKS];
    int features;
    bn_loss loss;
    bool affine;
    int slices;    /* of each rank's rows */
    double offset; /* of the inputs, which are N(offset, 1) */
} bn_case;

/* Numbers over (all rows, features), or over features. */
typedef struct bn_values {
    double *y, *dx;
    double *dweight, *dbias; /* [rank * features + feature]: of its rows */
    double *running_mean, *running_var;
} bn_values;

typedef struct bn_run {
    const bn_case *test;
    bn_values expected, got;
    /* Of each rank: bits of the running statistics, collectives. */
    float running[BN_MAX_RANKS][2];
    uint64_t forward_collectives[BN_MAX_RANKS];
    uint64_t backward_collectives[BN_MAX_RANKS];
} bn_run;

int bn_total_rows(const bn_case *test);

/* Computes `expected` and makes room for the rest. */
void bn_prepare(bn_run *run, const bn_case *test);
void bn_release(bn_run *run);

/* A rank_fn (unit/comm/ranks.h): one forward and backward into `got`. */
void bn_play(ls_group *group, void *opaque);

/*
 * The largest difference of y, dx, dweight and dbias of the ranks in `ranks`
 * (a bit each) between expected and got.
 */
double bn_worst(const bn_run *run, unsigned ranks);

/*
 * How large a difference rounding can make. With u = 2^-24, sums of n rows are
 * off by at most (n + 16) u in proportion to the sum of magnitudes. An offset
 * of the inputs is rounded in the mean of a rank, in that of all, and once
 * more in the difference of two means. As the deviations are 1, this is all it
 * costs.
 */
double bn_bound(const bn_case *test);

#endif

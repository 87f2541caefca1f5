/*
 * How gradients travel: the differences of the strategies of data parallelism.
 */
#ifndef LS_MODEL_PARALLEL_STRATEGY_H
#define LS_MODEL_PARALLEL_STRATEGY_H

#include <stdint.h>

#include "lockstep/parallel.h"
#include "model/autograd/params/sharing.h"

/* Gradients that travel together. */
typedef enum lsi_bucketing {
    LSI_BUCKETS_EACH, /* each parameter by itself */
    LSI_BUCKETS_ONE,  /* everything */
    LSI_BUCKETS_LIMIT /* as many as fit the bucket size */
} lsi_bucketing;

/* Start of a bucket's reduction. */
typedef enum lsi_start {
    LSI_START_IN_TURN, /* after backward, each when the last has arrived */
    LSI_START_AFTER,   /* after backward, all at once */
    LSI_START_READY    /* during backward, when all of it is final */
} lsi_start;

/* Arrays of which a rank has only its part. */
typedef enum lsi_sharding {
    LSI_SHARE_NOTHING,
    LSI_SHARE_TENSORS, /* state; it owns whole parameters */
    LSI_SHARE_STATE,   /* state, and reduced gradients */
    LSI_SHARE_WEIGHTS, /* as STATE; the ranks of a node have one copy */
    LSI_SHARE_ALL      /* as WEIGHTS; a rank drops the gradients of others */
} lsi_sharding;

typedef struct lsi_strategy {
    ls_ddp_strategy id;
    const char *text;
    lsi_bucketing buckets;
    lsi_start start;
    lsi_sharding share;
} lsi_strategy;

/* All strategies; *n is their number. */
const lsi_strategy *lsi_strategies(size_t *n);

/*
 * The row of that strategy, LS_DDP_DEFAULT among them. LS_ERR_ARGUMENT if
 * unknown.
 */
ls_status lsi_strategy_find(ls_ddp_strategy id, const lsi_strategy **out);

/* The names of the strategies that have a bucket size, for messages. */
typedef struct lsi_strategy_names {
    char text[128]; /* "bucketed, zero1, ..." */
} lsi_strategy_names;
const char *lsi_strategies_with_buckets(lsi_strategy_names *out);

/*
 * bucket_bytes of ls_ddp_options, for a flag in millions of bytes, of which 0
 * and INFINITY are no limit; and back, with INFINITY for no limit.
 */
size_t lsi_bucket_bytes(double mb);
double lsi_bucket_mb(size_t bytes);

/*
 * The strategy and the bucket size in bytes that these options ask for on that
 * number of nodes, or an error that describes a wrong option. Local.
 */
ls_status lsi_strategy_of(const ls_ddp_options *options, int64_t nodes,
                          const lsi_strategy **out, uint64_t *bucket_bytes);

/*
 * Groups into which `nodes` nodes are divided if `over` of them hold the
 * weights together; 0: all. The nodes of a group are i, i + groups, i + 2
 * groups, ... LS_ERR_ARGUMENT, with the values that fit.
 */
ls_status lsi_shard_groups(size_t nodes, size_t over, size_t *groups);

/* Groups as above, for these options: nodes that keep the same weights. */
ls_status lsi_replicas_of(const ls_group *group, const ls_ddp_options *options,
                          int *out);

/* Where the weights are, of which that many nodes keep the same part. */
lsi_weights_home lsi_home_of(const lsi_strategy *strategy,
                             const ls_group *group, int replicas);

/* X(NAME, value, text): the rows of ls_ddp_strategy, whose text is its name. */
#define LSI_DDP_STRATEGY_LIST(X)                                               \
    X(NAIVE, 1, "naive")                                                       \
    X(FLAT, 2, "flat")                                                         \
    X(OVERLAP, 3, "overlap")                                                   \
    X(BUCKETED, 4, "bucketed")                                                 \
    X(OWNERS, 5, "owners")                                                     \
    X(ZERO1, 6, "zero1")                                                       \
    X(SHARED, 7, "shared")                                                     \
    X(FSDP, 8, "fsdp")

#endif

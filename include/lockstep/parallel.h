/*
 * Data parallelism: the same model on every rank, one gradient.
 */
#ifndef LOCKSTEP_PARALLEL_H
#define LOCKSTEP_PARALLEL_H

#include "lockstep/autograd.h"
#include "lockstep/group.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- gradients ---------------------------------------------------------- */

typedef struct ls_ddp ls_ddp;

typedef struct ls_ddp_options {
    /*
     * How gradients travel; all strategies give the same bits.
     * "naive": one all-reduce for each parameter after backward.
     * "flat": one all-reduce of everything after backward.
     * "overlap": as "naive", each started during backward as soon as the
     * gradient is final.
     * "bucketed": as "overlap", for buckets of parameters.
     */
    const char *strategy;
    /*
     * The most gradients that travel together, in millions of bytes; a larger
     * parameter travels alone. INFINITY: all in one bucket.
     */
    double bucket_mb;
    /*
     * What becomes of trained parameters that a rank's losses since the last
     * sync have not used: false: an error on all ranks that names them; true:
     * their gradient on that rank is taken as zero.
     */
    bool unused_as_zero;
} ls_ddp_options;

/* "flat", one bucket, unused parameters are an error. */
LS_API ls_ddp_options ls_ddp_options_default(void);

/*
 * Wraps an allocated parameter set. Rank 0's parameters and buffers are copied
 * to all ranks. The set and the group must outlive it. Collective; options that
 * are wrong or differ between ranks are an error on all of them. On success
 * *out is the caller's. A set can be wrapped once at a time.
 */
LS_API ls_status ls_ddp_new(ls_ddp **out, ls_group *group, ls_params *params,
                            const ls_ddp_options *options);

/* Collective in spirit, as ls_group_close. Accepts NULLs. */
LS_API void ls_ddp_free(ls_ddp **ddp);

/*
 * Backward from `loss`, the mean over this rank's `weight` samples (or
 * tokens; 0 is allowed, and then the loss may be NULL).
 *
 * sync = false: gradients are accumulated locally; nothing is communicated.
 * An optimizer refuses to take a step with them.
 * sync = true: afterwards every rank's gradients are the mean over all samples
 * of all ranks and all micro-steps since the last sync, each sample weighing
 * the same. Collective.
 *
 * ls_params_zero_grad also forgets the samples of micro-steps without sync.
 */
LS_API ls_status ls_ddp_backward(ls_ddp *ddp, ls_tape *tape, ls_tensor *loss,
                                 double weight, bool sync);

/* ---- synchronised batch normalisation ----------------------------------- */

typedef enum ls_sync_bn_kind {
    /*
     * One collective forward and one backward. The ranks exchange (count,
     * mean, sum of squared differences from it), which combine without
     * cancellation (Chan, Golub, LeVeque 1979).
     */
    LS_SYNC_BN_FUSED,
    /*
     * The standard way: gather mean, inverse deviation and count from every
     * rank forward, all-reduce the two gradient sums backward.
     */
    LS_SYNC_BN_GATHERED
} ls_sync_bn_kind;

typedef struct ls_sync_bn ls_sync_bn;

/*
 * A layer for x (N, features), with its communication planned. N may differ
 * between ranks and be 0 on some. Parameters and buffers are added to `params`
 * as for ls_batch_norm_layer_init (weight, bias, running_mean, running_var).
 * Collective. On success *out is the caller's; it must be freed before the
 * group.
 */
typedef struct ls_sync_bn_options {
    ls_sync_bn_kind kind;
    bool affine;
    double eps;      /* 0 means 1e-5 */
    double momentum; /* 0 means 0.1 */
} ls_sync_bn_options;

LS_API ls_status ls_sync_bn_new(ls_sync_bn **out, ls_group *group,
                                ls_params *params, const char *name,
                                int64_t features, ls_sync_bn_options options);
LS_API void ls_sync_bn_free(ls_sync_bn **bn);

/*
 * Normalises over the rows of all ranks. Collective while the tape is
 * training, local otherwise. If all ranks together have fewer than two rows
 * the variance is taken as 0 and the running variance stays as it is.
 */
LS_API ls_tensor *ls_sync_bn_forward(ls_sync_bn *bn, ls_tape *tape,
                                     ls_tensor *x);

#ifdef __cplusplus
}
#endif

#endif

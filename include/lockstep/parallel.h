/*
 * Data parallelism: the same model on every rank, one gradient.
 */
#ifndef LOCKSTEP_PARALLEL_H
#define LOCKSTEP_PARALLEL_H

#include "lockstep/autograd.h"
#include "lockstep/group.h"
#include "lockstep/optim.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- gradients ---------------------------------------------------------- */

typedef struct ls_ddp ls_ddp;

/*
 * Strategies for gradients; all give the same bits.
 *
 * NAIVE: one all-reduce for each parameter after backward. FLAT: one all-reduce
 * of everything after backward. OVERLAP: as NAIVE, each started during backward
 * as soon as the gradient is final. BUCKETED: as OVERLAP, for buckets of
 * parameters. OWNERS, ZERO1, SHARED, FSDP: ranks divide the optimizer's state
 * and work (see docs/concepts/parallel.md). Make the optimizer after
 * ls_ddp_new; its steps are collective. Under the last three a rank gets the
 * mean gradients of its part only, and ls_ddp_new moves the parameters. Under
 * SHARED and FSDP the ranks of a node share one copy of the weights. A program
 * that writes weights does so on all ranks alike, with a barrier before and
 * after.
 */
typedef enum ls_ddp_strategy {
    LS_DDP_DEFAULT = 0, /* LS_DDP_FLAT */
    LS_DDP_NAIVE = 1,
    LS_DDP_FLAT = 2,
    LS_DDP_OVERLAP = 3,
    LS_DDP_BUCKETED = 4,
    LS_DDP_OWNERS = 5,
    LS_DDP_ZERO1 = 6,
    LS_DDP_SHARED = 7,
    LS_DDP_FSDP = 8
} ls_ddp_strategy;

#define LS_DDP_STRATEGY_COUNT 8 /* 1..8 */

/* "default", "naive", "flat", ...; "unknown" for any other value. Static. */
LS_API const char *ls_ddp_strategy_name(ls_ddp_strategy strategy);

/* The strategy with that name. LS_ERR_ARGUMENT lists the valid names. */
LS_API LS_MUST_CHECK ls_status ls_ddp_strategy_parse(const char *name,
                                                     ls_ddp_strategy *out);

typedef struct ls_ddp_options {
    size_t struct_size; /* sizeof, or 0: as in 0.1 (docs/reference/abi.md) */
    ls_ddp_strategy strategy;
    /*
     * Bytes of a bucket, at most; a larger parameter gets its own. 0: no limit:
     * all gradients are one bucket, and nothing overlaps; 25000000 is usual,
     * and what 0 means for LS_DDP_FSDP over several nodes. Must be 0 for a
     * strategy without buckets.
     */
    size_t bucket_bytes;
    /*
     * How to treat trained parameters that a rank's losses since the last sync
     * have not used. false: an error on all ranks that names them; true: their
     * gradient on that rank is taken as zero.
     */
    bool unused_as_zero;
    /*
     * LS_DDP_FSDP over several nodes: layers whose weights are gathered ahead.
     * More of them hide slower links and take more memory. 0: the default, 2;
     * LS_DDP_NO_PREFETCH: none. Other cases ignore it.
     */
    size_t prefetch_layers;
    /*
     * LS_DDP_FSDP over several nodes: nodes that together hold one copy of the
     * weights. It divides the number of nodes into 1, 2, 4, ... groups. More
     * nodes take less memory each, fewer exchange less: a node gathers only
     * from its group. 0: the default, all nodes. 1: a copy in each node, as
     * with LS_DDP_SHARED; on 1, 2, 4, ... nodes. Other strategies ignore it.
     */
    size_t shard_over;
} ls_ddp_options;

#define LS_DDP_NO_PREFETCH SIZE_MAX

/* LS_DDP_FLAT, one bucket, unused parameters are an error. */
#define LS_DDP_OPTIONS_INIT                                                    \
    {                                                                          \
        sizeof(ls_ddp_options), LS_DDP_DEFAULT, 0, false, 0, 0                 \
    }

/*
 * Wraps an allocated parameter set. Rank 0's parameters and buffers are copied
 * to all ranks. The set and the group must outlive it. NULL for the options
 * means the defaults. Collective; invalid options, and options or parameters
 * that differ between ranks, are an error on all ranks. On success *out is the
 * caller's. A set can be wrapped by one ls_ddp at a time.
 */
LS_API LS_MUST_CHECK ls_status ls_ddp_new(ls_ddp **out, ls_group *group,
                                          ls_params *params,
                                          const ls_ddp_options *options);

/*
 * All ranks should call it, as with ls_group_close. If it has divided the
 * weights over nodes, it waits for all ranks: until then others may need this
 * rank's part. Between ls_ddp_begin and ls_ddp_finish it tells the ranks that
 * wait there why they wait in vain. Accepts NULLs.
 */
LS_API void ls_ddp_free(ls_ddp **ddp);

/*
 * Backward from `loss`, the mean over this rank's `weight` samples (or
 * tokens; 0 is allowed, and then the loss may be NULL). Afterwards every rank's
 * gradients are the mean over all samples of all ranks, those of
 * ls_ddp_accumulate since the last ls_ddp_backward among them, each sample
 * weighing the same. Collective: a rank that fails tells the others why, and
 * all of them return an error.
 *
 * After an error in backward the gradients are unusable until
 * ls_params_zero_grad: further micro-steps and steps are LS_ERR_STATE.
 */
LS_API LS_MUST_CHECK ls_status ls_ddp_backward(ls_ddp *ddp, ls_tape *tape,
                                               ls_tensor *loss, double weight);

/*
 * Gradient accumulation: backward of a micro-step that is not the last of its
 * step; loss and weight as for ls_ddp_backward. Adds to this rank's gradients
 * and communicates nothing. Until ls_ddp_backward has ended the step, an
 * optimizer refuses to take it; ls_params_zero_grad forgets the micro-steps and
 * their samples. Local, unless backward of an operation is collective
 * (ls_sync_bn_forward).
 */
LS_API LS_MUST_CHECK ls_status ls_ddp_accumulate(ls_ddp *ddp, ls_tape *tape,
                                                 ls_tensor *loss,
                                                 double weight);

/*
 * For scaled losses (see ls_loss_scale): from now on backward starts at `scale`
 * times the weight and the mean is divided by it. 1 at first; positive, the
 * same on all ranks. Between micro-steps of one sync it is LS_ERR_STATE. Local.
 */
LS_API LS_EXPERIMENTAL LS_MUST_CHECK ls_status
ls_ddp_set_loss_scale(ls_ddp *ddp, double scale);

/*
 * For loops in which ranks have different numbers of batches: says whether any
 * rank has one left. Collective.
 *
 *     while (have = next_batch(&batch),
 *            ls_ddp_join(ddp, have, &more) == LS_OK && more)
 *         check(ls_ddp_backward(ddp, tape, have ? loss_of(&batch) : NULL,
 *                               have ? batch.count : 0)), ...
 */
LS_API LS_MUST_CHECK ls_status ls_ddp_join(ls_ddp *ddp, bool have_batch,
                                           bool *any);

/* ---- silent data corruption ---------------------------------------------- */
/*
 * Ranks that hold copies of the same data compare them by 64-bit digests. So
 * they find a copy that a fault of memory or CPU has changed, or a program that
 * wrote weights on some ranks only. A change of one bit is found for certain,
 * any other with probability 1 - 2^-64.
 *
 * On a difference all ranks return LS_ERR_CORRUPT. The message has the step,
 * the tensor, the element and the ranks that differ from the majority. If no
 * value has a majority, it names all ranks.
 *
 *     check(ls_ddp_backward(ddp, tape, loss, samples));
 *     check(ls_ddp_compare_gradients(ddp, step));
 *     if (step % 10 == 0)
 *         check(ls_ddp_compare_state(ddp, optimizer, step));
 *     check(ls_optimizer_step(optimizer, 1));
 *
 * Copies that exist depend on the strategy:
 *
 *     strategy                           gradients  weights     state
 *     naive, flat, overlap, bucketed     each rank  each rank   each rank
 *     owners                             each rank  each rank   -
 *     zero1                              -          each rank   -
 *     shared, fsdp (unless divided)      -          each node   -
 *     fsdp that divides weights          -          -           -
 *
 * With "-" nothing is compared; where "each node" has a copy, only trained
 * weights over several nodes. Gradients include the sums that travel with them
 * (weight, loss). EMA weights count as state. Running statistics of
 * ls_sync_bn_new with the group of the ls_ddp, and their EMA, are compared
 * under all strategies. Ranks may keep different values in other buffers.
 */

/*
 * Compares reduced gradients: after ls_ddp_backward or ls_ddp_finish, before
 * they are clipped or used. `step` is for messages. Collective. A rank on which
 * gradients are not reduced yet returns LS_ERR_STATE, as do all others.
 */
LS_API LS_EXPERIMENTAL LS_MUST_CHECK ls_status
ls_ddp_compare_gradients(ls_ddp *ddp, int64_t step);

/*
 * Compares weights, running statistics, and the state of the optimizer unless
 * it is NULL. Messages name `step` and the last step in which they were equal.
 * Call it ahead of an optimizer's step: under "owners" and "zero1" that step
 * replaces each copy by the owner's. Collective.
 */
LS_API LS_EXPERIMENTAL LS_MUST_CHECK ls_status
ls_ddp_compare_state(ls_ddp *ddp, const ls_optimizer *optimizer, int64_t step);

/* ---- gradients from a custom backward ------------------------------------ */
/*
 * For gradients from a hand-written backward or another framework, not from the
 * tape. The program reports when each is final and finds the means over all
 * ranks in the same place.
 *
 *     check(ls_ddp_begin(ddp, samples));
 *     for each layer, last to first:
 *         ... compute its gradient: the sum over this rank's samples ...
 *         check(ls_ddp_ready(ddp, index of the parameter));
 *     check(ls_ddp_finish(ddp));
 *     check(ls_optimizer_step(optimizer, 1));
 *
 * With an ls_ddp over a parameter set (ls_ddp_new) every strategy can be used.
 * Gradient `index` has as many elements as the parameter. The program writes it
 * to the memory given to ls_params_adopt, in f32, bf16 or f16, or to that of
 * ls_grad, in f32. It is summed over ranks in f32, and rounded once if it is a
 * half type. With an ls_ddp over ranges of f32 (ls_ddp_new_ranges), strategies
 * that share more than gradients are refused.
 */

typedef struct ls_ddp_range {
    float *data;
    size_t count;
} ls_ddp_range;

/*
 * Registers ranges, best in the order in which backward finishes them. The
 * array is copied, the memory stays the caller's. Gradients in memory from
 * ls_shared_alloc are reduced in place; adjacent ranges can share a bucket.
 * NULL for the options means the defaults. Collective; freed by ls_ddp_free.
 */
LS_API LS_EXPERIMENTAL LS_MUST_CHECK ls_status
ls_ddp_new_ranges(ls_ddp **out, ls_group *group, const ls_ddp_range *ranges,
                  size_t n, const ls_ddp_options *options);

/*
 * Begins a reduction of gradients that are sums over `weight` samples (or
 * tokens) of this rank, times the loss scale if ls_ddp_set_loss_scale has set
 * one. With weight 0 no gradient need become ready. Local.
 *
 * From here on other ranks may wait for this one. So an error is reported at
 * once and again in ls_ddp_finish: a weight that is not a number, a gradient
 * that is ready twice, an index that does not exist. There all ranks get it
 * with this rank's name; other ranks' ls_ddp_ready may report it earlier. The
 * next reduction can go on. A rank that cannot call ls_ddp_finish any more
 * calls ls_ddp_free, which tells the others, too.
 */
LS_API LS_EXPERIMENTAL LS_MUST_CHECK ls_status ls_ddp_begin(ls_ddp *ddp,
                                                            double weight);

/*
 * The gradient of parameter, or range, `index` is final: the program does not
 * touch it before ls_ddp_finish. Once for each that is trained, in any order,
 * which may differ between ranks, from the thread that called ls_ddp_begin.
 * LS_ERR_STATE names one that is ready twice, or while no reduction has begun.
 * Does not wait, except with "fsdp": a rank that is ahead waits for others. It
 * stops when nothing has moved for a second and the time of its pass.
 */
LS_API LS_EXPERIMENTAL LS_MUST_CHECK ls_status ls_ddp_ready(ls_ddp *ddp,
                                                            size_t index);

/*
 * Returns when gradients are the means over the samples of all ranks, as after
 * ls_ddp_backward: all of them, or with "zero1", "shared" and "fsdp" this
 * rank's part, for its optimizer; adopted memory for gradients is then left as
 * it is. A gradient that was not ready is an error on all ranks that names it
 * and the rank, or counts as zero (ls_ddp_options). Collective.
 */
LS_API LS_EXPERIMENTAL LS_MUST_CHECK ls_status ls_ddp_finish(ls_ddp *ddp);

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

typedef struct ls_sync_bn_options {
    size_t struct_size; /* sizeof, or 0: as in 0.1 (docs/reference/abi.md) */
    ls_sync_bn_kind kind;
    bool no_affine;  /* without weight and bias */
    bool relu;       /* of ls_sync_bn_forward: the result is clipped at 0 */
    double eps;      /* >= 0; 0: 1e-5 */
    double momentum; /* 0..1; 0 keeps running mean and variance */
} ls_sync_bn_options;

/* LS_SYNC_BN_FUSED, with weight and bias, eps 1e-5, momentum 0.1, no relu. */
#define LS_SYNC_BN_OPTIONS_INIT                                                \
    {                                                                          \
        sizeof(ls_sync_bn_options), LS_SYNC_BN_FUSED, false, false, 1e-5, 0.1  \
    }

/*
 * A layer for x (N, features) or (N, features, ...), with its communication
 * planned. N, and the extents after the features, may differ between ranks and
 * be 0 on some. Parameters and buffers are added to `params`
 * as for ls_batch_norm_layer_init (weight, bias, running_mean, running_var).
 * NULL for the options means LS_SYNC_BN_OPTIONS_INIT. Collective. On success
 * *out is the caller's; it must be freed before the group.
 */
LS_API LS_MUST_CHECK ls_status ls_sync_bn_new(
    ls_sync_bn **out, ls_group *group, ls_params *params, const char *name,
    int64_t features, const ls_sync_bn_options *options);
LS_API void ls_sync_bn_free(ls_sync_bn **bn);

/*
 * Normalises over the rows of all ranks, then adds the residual, of x's shape
 * or NULL, and clips at 0 if the options say relu; of images in one pass, as
 * ls_batch_norm. Collective while the tape is training, local otherwise. If all
 * ranks together have fewer than two rows the variance is taken as 0 and the
 * running variance stays as it is. Backward is collective, too: a rank that has
 * failed in the meantime still calls ls_backward or ls_ddp_backward, which
 * tells the others why.
 */
LS_API ls_tensor *ls_sync_bn_forward(ls_sync_bn *bn, ls_tape *tape,
                                     ls_tensor *x, ls_tensor *residual);

#ifdef __cplusplus
}
#endif

#endif

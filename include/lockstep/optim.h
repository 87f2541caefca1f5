/*
 * Optimizers: they turn the gradients of a parameter set into a step. Clipping
 * and learning rates, which go with them.
 */
#ifndef LOCKSTEP_OPTIM_H
#define LOCKSTEP_OPTIM_H

#include "lockstep/autograd.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_optimizer ls_optimizer;

/* ---- stochastic gradient descent ----------------------------------------- */

/*
 * v = momentum * v + g + weight_decay * p; p -= lr * v, with v = g at first.
 * (Sutskever et al., ICML 2013, in the form without dampening.)
 */
typedef struct ls_sgd_options {
    double lr;           /* > 0 */
    double momentum;     /* 0 <= momentum < 1; 0 keeps no state */
    double weight_decay; /* >= 0 */
} ls_sgd_options;

/*
 * An optimizer for every trained parameter of an allocated set, which must
 * outlive it. Local. On success *out is the caller's.
 */
LS_API ls_status ls_sgd_new(ls_optimizer **out, ls_params *params,
                            ls_sgd_options options);

/* ---- AdamW --------------------------------------------------------------- */

/*
 * In step t = 1, 2, ... of a group (Kingma and Ba, ICLR 2015; Loshchilov and
 * Hutter, ICLR 2019):
 *
 *     m = beta1 * m + (1 - beta1) * g
 *     v = beta2 * v + (1 - beta2) * g^2
 */
typedef enum ls_adamw_order {
    /*
     * As torch.optim.AdamW: p -= lr * weight_decay * p, and then
     * p -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
     */
    LS_ADAMW_DECAY_FIRST,
    /*
     * As the papers' short form: p -= a * m / (sqrt(v) + eps) with
     * a = lr * sqrt(1 - beta2^t) / (1 - beta1^t), and then
     * p -= lr * weight_decay * p
     */
    LS_ADAMW_DECAY_LAST
} ls_adamw_order;

typedef struct ls_adamw_options {
    double lr;           /* > 0 */
    double beta1, beta2; /* 0 <= beta < 1 */
    double eps;          /* > 0 */
    double weight_decay; /* >= 0 */
    ls_adamw_order order;
} ls_adamw_options;

/* lr 1e-3, betas 0.9 and 0.999, eps 1e-8, weight_decay 0.01, decay first. */
LS_API ls_adamw_options ls_adamw_defaults(void);

/* As ls_sgd_new. Two numbers of state for each parameter. */
LS_API ls_status ls_adamw_new(ls_optimizer **out, ls_params *params,
                              ls_adamw_options options);

/* ---- parameter groups ---------------------------------------------------- */

/*
 * An optimizer that begins with one group: these n trained parameters of the
 * set (NULL: all). The others stay as they are until a group takes them.
 */
LS_API ls_status ls_sgd_new_with(ls_optimizer **out, ls_params *params,
                                 ls_tensor *const *group, size_t n,
                                 ls_sgd_options options);
LS_API ls_status ls_adamw_new_with(ls_optimizer **out, ls_params *params,
                                   ls_tensor *const *group, size_t n,
                                   ls_adamw_options options);

/*
 * Another group, with options of its own; at any time between steps. Its state
 * and its t begin anew. A parameter that is in a group already is
 * LS_ERR_ARGUMENT and named, as is an optimizer of the other kind. After an
 * error the optimizer is as it was.
 */
LS_API ls_status ls_sgd_add_group(ls_optimizer *optimizer,
                                  ls_tensor *const *group, size_t n,
                                  ls_sgd_options options);
LS_API ls_status ls_adamw_add_group(ls_optimizer *optimizer,
                                    ls_tensor *const *group, size_t n,
                                    ls_adamw_options options);

/* How many groups there are; they are numbered from 0. */
LS_API size_t ls_optimizer_groups(const ls_optimizer *optimizer);

/* ---- steps --------------------------------------------------------------- */

/*
 * One step with the gradients as they are, each multiplied by grad_scale
 * first (1 unless you scale losses). Gradients that no backward wrote since
 * ls_params_zero_grad count as zero. The gradients are left as they are: call
 * ls_params_zero_grad before the next backward. Local and deterministic: equal
 * inputs give equal bits on every rank, for any number of threads. Collective
 * if ls_ddp_new has divided the parameters among ranks.
 */
LS_API ls_status ls_optimizer_step(ls_optimizer *optimizer, double grad_scale);

/*
 * The learning rate of all groups, or of one, from the next step on; with 0 a
 * step moves nothing.
 */
LS_API ls_status ls_optimizer_set_lr(ls_optimizer *optimizer, double lr);
LS_API ls_status ls_optimizer_set_group_lr(ls_optimizer *optimizer,
                                           size_t group, double lr);

/* The learning rate of a group; that of group 0. 0 if there is none such. */
LS_API double ls_optimizer_group_lr(const ls_optimizer *optimizer,
                                    size_t group);
LS_API double ls_optimizer_lr(const ls_optimizer *optimizer);

/* Frees it and sets *optimizer to NULL. Accepts NULLs. */
LS_API void ls_optimizer_free(ls_optimizer **optimizer);

/* ---- clipping ------------------------------------------------------------ */

/* Limits the 2-norm of all gradients of a set. */
typedef struct ls_clip ls_clip;

/* For an allocated set, which must outlive it; max_norm > 0. Local. */
LS_API ls_status ls_clip_new(ls_clip **out, ls_params *params, double max_norm);

/*
 * Multiplies *grad_scale, which goes to ls_optimizer_step, by
 * min(1, max_norm / (norm + 1e-6)), norm being that of all gradients times
 * *grad_scale; tells it if norm is not NULL. The gradients stay as they are:
 * no pass is made to multiply them. Collective if ranks have reduced a part of
 * the gradients each (strategies "zero1" and "shared"), with the same result.
 * The same bits for any number of threads. An infinite norm, or NaN, is
 * LS_ERR_ARGUMENT.
 */
LS_API ls_status ls_clip_grad(ls_clip *clip, double *grad_scale, double *norm);

/* Frees it and sets *clip to NULL. Accepts NULLs. */
LS_API void ls_clip_free(ls_clip **clip);

/* ---- learning rates ------------------------------------------------------ */

typedef enum ls_lr_kind {
    LS_LR_CONSTANT, /* max_lr */
    LS_LR_COSINE    /* half a cosine from max_lr down to min_lr */
} ls_lr_kind;

/*
 * Both kinds first rise to max_lr in warmup_steps. The cosine ends at
 * total_steps, which include those, and stays at min_lr.
 */
typedef struct ls_lr_schedule {
    ls_lr_kind kind;
    double max_lr, min_lr;
    int64_t warmup_steps, total_steps;
} ls_lr_schedule;

/*
 * The learning rate of step 0, 1, ..., a pure function. With W = warmup_steps,
 * T = total_steps: max_lr * step / W before W; then max_lr, or
 * min_lr + (1 + cos(pi (step - W) / (T - W))) / 2 * (max_lr - min_lr), and
 * min_lr after T.
 */
LS_API double ls_lr_at(const ls_lr_schedule *schedule, int64_t step);

#ifdef __cplusplus
}
#endif

#endif

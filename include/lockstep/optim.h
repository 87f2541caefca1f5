/*
 * Optimizers, which turn the gradients of a parameter set into a step; gradient
 * clipping, loss scaling and learning-rate schedules.
 */
#ifndef LOCKSTEP_OPTIM_H
#define LOCKSTEP_OPTIM_H

#include "lockstep/autograd.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_optimizer ls_optimizer;

/*
 * Options of each kind. A program that passes NULL gets LS_..._OPTIONS_INIT, as
 * does one that begins with it:
 *
 *     ls_adamw_options adamw = LS_ADAMW_OPTIONS_INIT;
 *     adamw.weight_decay = 0.1;
 *
 * In a struct that begins with zeros, lr and eps of 0 mean these defaults. The
 * other members of 0 mean 0: no momentum, no decay, no average.
 */

/* ---- stochastic gradient descent ----------------------------------------- */

/*
 * v = momentum * v + g + weight_decay * p; p -= lr * v, with v = g at first.
 * (Sutskever et al., ICML 2013, in the form without dampening.)
 */
typedef struct ls_sgd_options {
    size_t struct_size;  /* sizeof, or 0: as in 0.1 (docs/reference/abi.md) */
    double lr;           /* > 0; 0: 0.01 */
    double momentum;     /* 0 <= momentum < 1; 0 keeps no state */
    double weight_decay; /* >= 0 */
} ls_sgd_options;

/* lr 0.01, momentum 0.5, no weight decay. */
#define LS_SGD_OPTIONS_INIT                                                    \
    {                                                                          \
        sizeof(ls_sgd_options), 0.01, 0.5, 0                                   \
    }

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
     * As the papers' short form. With a = lr * sqrt(1 - beta2^t) / (1 -
     * beta1^t): p -= a * m / (sqrt(v) + eps). Then p -= lr * weight_decay * p
     */
    LS_ADAMW_DECAY_LAST
} ls_adamw_order;

/* Two numbers of state for each parameter. */
typedef struct ls_adamw_options {
    size_t struct_size;  /* sizeof, or 0: as in 0.1 (docs/reference/abi.md) */
    double lr;           /* > 0; 0: 1e-3 */
    double beta1, beta2; /* 0 <= beta < 1; 0: no average. INIT has 0.9, 0.999 */
    double eps;          /* > 0; 0: 1e-8 */
    double weight_decay; /* >= 0 */
    ls_adamw_order order;
} ls_adamw_options;

/* lr 1e-3, betas 0.9 and 0.999, eps 1e-8, weight_decay 0.01, decay first. */
#define LS_ADAMW_OPTIONS_INIT                                                  \
    {                                                                          \
        sizeof(ls_adamw_options), 1e-3, 0.9, 0.999, 1e-8, 0.01,                \
            LS_ADAMW_DECAY_FIRST                                               \
    }

/* ---- Lion ---------------------------------------------------------------- */

/*
 * In each step (Chen et al., Symbolic Discovery of Optimization Algorithms,
 * NeurIPS 2023, program 1):
 *
 *     c = beta1 * m + (1 - beta1) * g
 *     p -= lr * (sign(c) + weight_decay * p), with sign(0) = 0
 *     m = beta2 * m + (1 - beta2) * g
 *
 * Every step moves each weight by lr, whatever the size of the gradient: lr is
 * usually a third to a tenth of AdamW's, and weight_decay that much larger. One
 * number of state for each parameter.
 */
typedef struct ls_lion_options {
    size_t struct_size;  /* sizeof, or 0: as in 0.1 (docs/reference/abi.md) */
    double lr;           /* > 0; 0: 1e-4 */
    double beta1, beta2; /* 0 <= beta < 1; 0: no average. INIT has 0.9, 0.99 */
    double weight_decay; /* >= 0 */
} ls_lion_options;

/* lr 1e-4, betas 0.9 and 0.99, weight_decay 0.1. */
#define LS_LION_OPTIONS_INIT                                                   \
    {                                                                          \
        sizeof(ls_lion_options), 1e-4, 0.9, 0.99, 0.1                          \
    }

/* ---- optimizers and their parameter groups ------------------------------- */

typedef enum ls_optimizer_kind {
    LS_OPTIMIZER_DEFAULT, /* see ls_optimizer_spec */
    LS_OPTIMIZER_SGD,
    LS_OPTIMIZER_ADAMW,
    LS_OPTIMIZER_LION
} ls_optimizer_kind;

/* A group of parameters and how an optimizer steps them. */
typedef struct ls_optimizer_spec {
    size_t struct_size; /* sizeof, or 0: as in 0.1 (docs/reference/abi.md) */
    /*
     * LS_OPTIMIZER_DEFAULT: the kind whose options are given; without options
     * AdamW, or the kind of the optimizer that the group is added to.
     */
    ls_optimizer_kind kind;
    /* Options of that kind, copied. NULL: its defaults, and for other kinds. */
    const ls_sgd_options *sgd;
    const ls_adamw_options *adamw;
    const ls_lion_options *lion;
    /* n trained parameters of the set; NULL: all of them. */
    ls_tensor *const *tensors;
    size_t n;
} ls_optimizer_spec;

/*
 * An optimizer with one group, for parameters of an allocated set, which must
 * outlive it. Parameters outside of all groups stay as they are. NULL for the
 * spec: AdamW for every trained parameter. Local. On success *out is the
 * caller's.
 *
 *     ls_adamw_options adamw = LS_ADAMW_OPTIONS_INIT;
 *     adamw.lr = 3e-4;
 *     const ls_optimizer_spec spec = {.adamw = &adamw};
 *     check(ls_optimizer_new(&optimizer, params, &spec));
 */
LS_API LS_MUST_CHECK ls_status ls_optimizer_new(ls_optimizer **out,
                                                ls_params *params,
                                                const ls_optimizer_spec *spec);

/*
 * Adds a group with its own options, at any time between steps. Its state and
 * its t start from zero. A parameter that is in a group already is
 * LS_ERR_ARGUMENT and named, as is a spec of another kind than the
 * optimizer's. After an error the optimizer is unchanged.
 */
LS_API LS_MUST_CHECK ls_status
ls_optimizer_add_group(ls_optimizer *optimizer, const ls_optimizer_spec *spec);

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
LS_API LS_MUST_CHECK ls_status ls_optimizer_step(ls_optimizer *optimizer,
                                                 double grad_scale);

/*
 * Sets the learning rate of all groups, or of one, from the next step on; with
 * 0 a step moves nothing.
 */
LS_API LS_MUST_CHECK ls_status ls_optimizer_set_lr(ls_optimizer *optimizer,
                                                   double lr);
LS_API LS_MUST_CHECK ls_status
ls_optimizer_set_group_lr(ls_optimizer *optimizer, size_t group, double lr);

/* The learning rate of a group (0 if the group does not exist); of group 0. */
LS_API double ls_optimizer_group_lr(const ls_optimizer *optimizer,
                                    size_t group);
LS_API double ls_optimizer_lr(const ls_optimizer *optimizer);

/* Frees it and sets *optimizer to NULL. Accepts NULLs. */
LS_API void ls_optimizer_free(ls_optimizer **optimizer);

/* ---- averages of weights ------------------------------------------------- */

/*
 * From the next step on, keeps an exponential moving average of the weights
 * that this optimizer steps, and of all buffers of their set. After step t of a
 * group (t = 1, 2, ...):
 *
 *     average += (1 - d) * (weight - average), d = min(decay, (1 + t) / (10 +
 * t))
 *
 * so that the weights of the first steps do not stay in it for long. It begins
 * with the weights as they are. A float more for each parameter that this rank
 * steps: strategies that divide an optimizer's state divide the averages, too.
 * Checkpoints save them with that state, and load them into an optimizer that
 * averages. 0 < decay < 1; 0.999 is usual. Local.
 */
LS_API LS_MUST_CHECK ls_status ls_ema_start(ls_optimizer *optimizer,
                                            double decay);

/* The decay; 0 if nothing is averaged. */
LS_API double ls_ema_decay(const ls_optimizer *optimizer);

/*
 * The weights and buffers change places with their averages: to evaluate or
 * save the averages call it before, and again behind to go on. Until then steps
 * and checkpoints are LS_ERR_STATE. Collective if ls_ddp_new has divided the
 * parameters among ranks; without gradients that are not synchronised yet.
 */
LS_API LS_MUST_CHECK ls_status ls_ema_swap(ls_optimizer *optimizer);

/* ---- clipping ------------------------------------------------------------ */

/* Limits the 2-norm of all gradients of a set. */
typedef struct ls_clip ls_clip;

/* For an allocated set, which must outlive it; max_norm > 0. Local. */
LS_API LS_MUST_CHECK ls_status ls_clip_new(ls_clip **out, ls_params *params,
                                           double max_norm);

/*
 * Multiplies *grad_scale, which goes to ls_optimizer_step, by
 * min(1, max_norm / (norm + 1e-6)), norm being that of all gradients times
 * *grad_scale; writes it to *norm unless norm is NULL. The gradients are
 * unchanged: no pass is made to multiply them. Collective, with the same result
 * on all ranks, if each rank has reduced a part of the gradients (strategies
 * "zero1", "shared" and "fsdp"). The same bits for any number of threads.
 *
 * An infinite norm, or NaN, leaves *grad_scale unchanged and sets *finite to
 * false on all ranks, as scaled losses need it, whose gradients may overflow.
 * With NULL for `finite` it is LS_ERR_ARGUMENT.
 */
LS_API LS_MUST_CHECK ls_status ls_clip_grad(ls_clip *clip, double *grad_scale,
                                            double *norm, bool *finite);

/* Frees it and sets *clip to NULL. Accepts NULLs. */
LS_API void ls_clip_free(ls_clip **clip);

/* ---- loss scaling -------------------------------------------------------- */

/*
 * For products in f16, in which small gradients would vanish: backward starts
 * at `scale` instead of 1, and the step multiplies gradients by 1 / scale. A
 * step whose gradients overflow is skipped and makes the scale smaller; many in
 * a row without overflow make it larger. All ranks see the same norm, so they
 * skip the same steps and their scales stay equal. With data parallelism
 * ls_ddp_set_loss_scale and ls_ddp_backward replace ls_backward, and grad_scale
 * is 1, as the gradients are divided already.
 *
 *     check(ls_backward(tape, loss, s.scale));
 *     double grad_scale = 1 / s.scale;
 *     check(ls_clip_grad(clip, &grad_scale, &norm, &finite));
 *     check(ls_loss_scale_update(&s, finite));
 *     if (finite)
 *         check(ls_optimizer_step(optimizer, grad_scale));
 */
typedef struct ls_loss_scale {
    /* The state, which a checkpoint must save and restore. */
    double scale;
    int64_t good_steps; /* in a row, since the scale changed */
    int64_t skipped;    /* steps in all */
    /* How it changes. */
    double growth;    /* factor after `interval` good steps; at least 1 */
    double backoff;   /* factor after an overflow; below 1 */
    int64_t interval; /* at least 1 */
} ls_loss_scale;

/* 65536, growth 2, backoff 0.5, interval 2000. */
LS_API LS_EXPERIMENTAL ls_loss_scale ls_loss_scale_defaults(void);

/* LS_ERR_ARGUMENT for values out of range. */
LS_API LS_EXPERIMENTAL LS_MUST_CHECK ls_status
ls_loss_scale_check(const ls_loss_scale *scale);

/*
 * Call it after each step, whether taken (`finite`) or skipped. LS_ERR_ARGUMENT
 * if gradients overflow even with a scale of 2^-24.
 */
LS_API LS_EXPERIMENTAL LS_MUST_CHECK ls_status
ls_loss_scale_update(ls_loss_scale *scale, bool finite);

/* ---- learning rates ------------------------------------------------------ */

typedef enum ls_lr_kind {
    LS_LR_CONSTANT,     /* max_lr */
    LS_LR_COSINE,       /* half a cosine from max_lr down to min_lr */
    LS_LR_LINEAR,       /* a line from max_lr down to min_lr */
    LS_LR_INVERSE_SQRT, /* with 1 / sqrt(step), never below min_lr */
    LS_LR_WSD,          /* warm-up, stable, decay: a line at the end */
    LS_LR_ONE_CYCLE     /* half a cosine up, and one down */
} ls_lr_kind;

/*
 * All but the one cycle first rise to max_lr in warmup_steps. Falling ones end
 * at total_steps, which include the warm-up, and stay at min_lr.
 */
typedef struct ls_lr_schedule {
    size_t struct_size; /* sizeof, or 0: as in 0.1 (docs/reference/abi.md) */
    ls_lr_kind kind;
    double max_lr, min_lr;
    int64_t warmup_steps, total_steps;
    int64_t decay_steps; /* of WSD, the last ones; 0: a tenth of total_steps */
} ls_lr_schedule;

/*
 * The learning rate of step 0, 1, ..., a pure function. With W = warmup_steps,
 * T = total_steps: max_lr * step / W before W; then max_lr, or
 * min_lr + (1 + cos(pi (step - W) / (T - W))) / 2 * (max_lr - min_lr), and
 * min_lr after T. The others after W:
 *
 *     linear        max_lr + (min_lr - max_lr) (step - W) / (T - W)
 *     inverse_sqrt  max_lr sqrt(U / max(step, U)) with U = max(W, 1)
 *     wsd           max_lr until T - decay_steps, then a line to min_lr at T
 *     one_cycle     as torch.optim.lr_scheduler.OneCycleLR: half a cosine from
 *                   max_lr / 25 at step 0 to max_lr at U - 1, U being W or, if
 *                   that is 0, 0.3 T; then one to min_lr at T - 1
 *
 * 0 if the schedule is NULL or its struct_size is wrong.
 */
LS_API double ls_lr_at(const ls_lr_schedule *schedule, int64_t step);

#ifdef __cplusplus
}
#endif

#endif

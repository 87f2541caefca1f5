/*
 * Optimizers: they turn the gradients of a parameter set into a step.
 */
#ifndef LOCKSTEP_OPTIM_H
#define LOCKSTEP_OPTIM_H

#include "lockstep/autograd.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_optimizer ls_optimizer;

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

/*
 * One step with the gradients as they are, each multiplied by grad_scale
 * first (1 unless you scale losses). Gradients that no backward wrote since
 * ls_params_zero_grad count as zero. The gradients are left as they are: call
 * ls_params_zero_grad before the next backward. Local and deterministic: equal
 * inputs give equal bits on every rank, for any number of threads.
 */
LS_API ls_status ls_optimizer_step(ls_optimizer *optimizer, double grad_scale);

/* The learning rate from the next step on; with 0 a step moves nothing. */
LS_API ls_status ls_optimizer_set_lr(ls_optimizer *optimizer, double lr);
LS_API double ls_optimizer_lr(const ls_optimizer *optimizer);

/* Frees it and sets *optimizer to NULL. Accepts NULLs. */
LS_API void ls_optimizer_free(ls_optimizer **optimizer);

#ifdef __cplusplus
}
#endif

#endif

/*
 * How a model learns from its gradients: optimizer, learning rate, clipping.
 * Whatever is trained is trained by one of these.
 */
#ifndef LS_TRAIN_RECIPE_H
#define LS_TRAIN_RECIPE_H

#include "lockstep/optim.h"

typedef struct lsi_recipe {
    const char *optimizer;    /* "sgd" or "adamw" */
    double lr;                /* 0: what is usual for the optimizer */
    double momentum;          /* of sgd */
    double beta1, beta2, eps; /* of adamw */
    double weight_decay;
    const char *schedule; /* "constant" or "cosine" */
    int64_t warmup_steps;
    double min_lr;
    double clip_norm; /* 0: gradients are not clipped */
} lsi_recipe;

/* LS_ERR_ARGUMENT for what no stepper could follow. */
ls_status lsi_recipe_check(const lsi_recipe *recipe);

/* A recipe at work on a parameter set. */
typedef struct lsi_stepper {
    ls_optimizer *optimizer;
    ls_clip *clip; /* or NULL */
    ls_lr_schedule schedule;
    int64_t steps;   /* taken */
    double lr, norm; /* of the last one; norm only if gradients are clipped */
} lsi_stepper;

/*
 * For the trained parameters of an allocated set, which must outlive it, and so
 * many steps in all. After an error there is nothing to release.
 */
ls_status lsi_stepper_init(lsi_stepper *stepper, ls_params *params,
                           const lsi_recipe *recipe, int64_t total_steps);
void lsi_stepper_release(lsi_stepper *stepper);

/* One step with the gradients, each multiplied by grad_scale first. */
ls_status lsi_stepper_step(lsi_stepper *stepper, double grad_scale);

#endif

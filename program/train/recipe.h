/*
 * How a model is trained: optimizer, learning rate, clipping. Every job has a
 * recipe.
 */
#ifndef LS_TRAIN_RECIPE_H
#define LS_TRAIN_RECIPE_H

#include "model/optim/optimizer.h"
#include "train/run_config.h"

typedef struct lsi_recipe {
    const char *optimizer; /* a row of optim/optimizers.h */
    double lr;             /* 0: the usual one of the optimizer */
    lsi_optimizer_flags flags;
    const char *schedule; /* "constant", "cosine", ... as --schedule */
    int64_t warmup_steps; /* below 0: the usual number of the schedule */
    double min_lr;
    int64_t decay_steps;    /* of wsd; 0: a tenth of all */
    double clip_norm;       /* 0: gradients are not clipped */
    double ema;             /* decay of the EMA weights; 0: none */
    bool divergence_check;  /* a run whose loss stays high ends */
    int64_t check_replicas; /* steps between comparisons of weights and state;
                             * gradients are compared in each step; 0: never */
} lsi_recipe;

/* LS_ERR_ARGUMENT for a recipe that cannot be followed. */
ls_status lsi_recipe_check(const lsi_recipe *recipe);

/* Numbers that the optimizer keeps per parameter, EMA weights included. */
int lsi_recipe_moments(const lsi_recipe *recipe);

/* The settings on which a run of `total_steps` steps depends, by flag. */
void lsi_recipe_describe(const lsi_recipe *recipe, int64_t total_steps,
                         lsi_run_config *config);

/*
 * Fills in the settings that nobody has asked for: with the usual values, or
 * with those of `config`, which a checkpoint may have changed. LS_ERR_FORMAT if
 * such a value is not a possible number.
 */
ls_status lsi_recipe_settle(lsi_recipe *recipe, const lsi_run_config *config);

/* A recipe at work on a parameter set. */
typedef struct lsi_stepper {
    ls_optimizer *optimizer;
    ls_clip *clip;            /* or NULL */
    ls_loss_scale loss_scale; /* scale 0: losses are not scaled */
    double step_weight; /* weight of a step's samples, with loss scaling */
    double clip_norm;   /* 0: gradients are not clipped */
    ls_lr_schedule schedule;
    int64_t steps;   /* taken or skipped */
    double lr, norm; /* of the last one; norm only if gradients are measured,
                      * and infinite or NaN if it was skipped */
    bool diverged;   /* all ranks have the last error, with advice */
} lsi_stepper;

/*
 * For the trained parameters of an allocated set, which must outlive the
 * stepper, and `total_steps` steps in all. After an error nothing is to be
 * released.
 */
ls_status lsi_stepper_init(lsi_stepper *stepper, ls_params *params,
                           const lsi_recipe *recipe, int64_t total_steps);
void lsi_stepper_release(lsi_stepper *stepper);

/* From now on the norm of the gradients is measured, also if none is clipped.
 */
ls_status lsi_stepper_measure(lsi_stepper *stepper, ls_params *params);

/*
 * From now on losses are scaled, and steps whose gradients overflow skipped on
 * all ranks. `step_weight` is what all samples of a step weigh, about: the
 * scale is then that of a mean, whatever the batch.
 */
ls_status lsi_stepper_scale_losses(lsi_stepper *stepper, ls_params *params,
                                   double step_weight);

/* For ls_ddp_set_loss_scale, until the next step. */
double lsi_stepper_loss_scale(const lsi_stepper *stepper);

/*
 * The error of a run that fails in that step: `what`, which is the same on all
 * ranks, has that value, and `why` explains it. The message ends with advice.
 */
ls_status lsi_stepper_fail(lsi_stepper *stepper, int64_t step, const char *what,
                           double value, const char *why);

/* As `why`, for infinities and NaN. */
#define LSI_NOT_FINITE                                                         \
    "the run has diverged, or its data or weights are not finite"

/* Cause of infinities and NaN from a model that is only used. */
#define LSI_BAD_WEIGHTS                                                        \
    "the model's weights are infinite, NaN or too large. Its training may "    \
    "have diverged"

/*
 * One step with the gradients, each multiplied by grad_scale first. Gradients
 * whose norm is infinite or NaN are skipped if losses are scaled, and else an
 * error.
 */
ls_status lsi_stepper_step(lsi_stepper *stepper, double grad_scale);

/*
 * Puts averages of weights in the place of the weights, and by another call
 * back again. Nothing happens if the recipe has none. As ls_ema_swap.
 */
ls_status lsi_stepper_swap_averages(const lsi_stepper *stepper);

#endif

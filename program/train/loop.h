/*
 * The training loop that every job runs in: it starts with what all ranks agree
 * on, takes steps of several micro-steps (batch, forward, backward, and
 * communication once per step), makes checkpoints, and ends with one outcome
 * for all ranks. The job defines the batches, the model and the numbers that
 * are reported.
 */
#ifndef LS_TRAIN_LOOP_H
#define LS_TRAIN_LOOP_H

#include "lockstep/group.h"
#include "lockstep/parallel.h"
#include "model/nets/model.h"
#include "train/ddp_choice.h"
#include "train/recipe.h"
#include "train/resume.h"

/* What a job wants trained, and how. */
typedef struct lsi_training {
    ls_params *params;  /* NULL until they are made */
    int64_t parameters; /* how many numbers */
    ls_ddp_options ddp; /* unless: */
    bool choose_ddp;    /* the strategy is to be chosen */
    lsi_recipe recipe;
    int64_t total_steps; /* of the optimizer */
    int64_t accumulate;  /* micro-steps of most steps */
    ls_dtype dtype;      /* of products */
    double step_weight;  /* of all samples of a step, on all ranks */
} lsi_training;

/*
 * In the order in which they are called. All but `release` may fail, on one
 * rank alone unless the call is said to be collective. Those that may be NULL
 * say so.
 */
typedef struct lsi_train_job {
    /* Alone, before ranks start together; fills the loop's resume.settings. */
    ls_status (*prepare)(void *self);
    /* Says all but `params`, before anything large is made. Collective. */
    ls_status (*plan)(void *self, lsi_training *out);
    /* What the checkpoint says from which the job goes on. */
    ls_status (*find_place)(void *self, const ls_checkpoint *found);
    /*
     * Makes the model, the same each time; unmake takes it back. Collective.
     */
    ls_status (*make)(void *self, ls_params **out);
    void (*unmake)(void *self);
    /*
     * While strategies are measured: what `forward` is called for from now on
     * are the first micro-steps, once more. *micro_steps: how many there are,
     * the same on all ranks. What has been read is forgotten behind it.
     */
    void (*rehearse)(void *self, int64_t *micro_steps);
    /* What can still be refused is refused here. */
    ls_status (*begin)(void *self);
    /*
     * Before each step: does what is due after those that are done, such as a
     * validation. *micro_steps: of the next one; 0 if there is none.
     * Collective.
     */
    ls_status (*next)(void *self, int64_t *micro_steps);
    /*
     * Reads a batch and computes its loss. Errors stick to the tape; if the
     * model has collectives of its own, it takes part all the same.
     */
    lsi_forward (*forward)(void *self, int64_t micro_step);
    /* Backward went well: counts what came out. */
    ls_status (*add)(void *self, const lsi_forward *out);
    /* Before the optimizer's step; collective, or NULL. */
    ls_status (*before_step)(void *self);
    /* After it. Collective. */
    ls_status (*stepped)(void *self);
    /* One is due: calls lsi_loop_save. Collective. */
    ls_status (*checkpoint)(void *self);
    /* The result, if one is wanted; on rank 0. */
    ls_status (*save)(const void *self);
    /* What the calls above have made, as far as they came. */
    void (*release)(void *self);
} lsi_train_job;

/* A checkpoint of this step is whole. */
typedef void (*lsi_saved_fn)(void *context, int64_t step, const char *folder);

typedef struct lsi_loop {
    const lsi_train_job *job;
    void *self;            /* of the job */
    lsi_saved_fn on_saved; /* or NULL; called on every rank */
    void *context;         /* for it */
    ls_group *group;
    bool *agreed; /* as in lsi_share_outcome */
    lsi_resume resume;
    /* From here on the loop's own. */
    ls_checkpoint *found;  /* from which it goes on, or NULL */
    lsi_training training; /* what the job wants, as it is done */
    lsi_ddp_choice choice; /* how gradients travel */
    int64_t choices;       /* made in this run and in what it goes on from */
    bool rehearses;        /* nothing is counted */
    ls_ddp *ddp;           /* with deferred scale */
    lsi_stepper stepper;
    ls_tape *tape;
    int stopped_by; /* a signal (stop.h), on all ranks after the same step */
} lsi_loop;

/* A loop that can run. The options must outlive it. */
lsi_loop lsi_loop_of(ls_group *group, const lsi_train_job *job, void *self,
                     const lsi_resume_options *resume, bool *agreed);

/*
 * Runs the job and releases everything. Collective. If it fails with *agreed
 * true, all ranks have the same error: one of them is enough to tell. From the
 * first step on a request to end (stop.h) ends it, too, with an error that says
 * what was saved.
 */
ls_status lsi_loop_run(lsi_loop *loop);

/*
 * The part of it between begin and save: all steps that `next` asks for, or
 * those until a signal stops them.
 */
ls_status lsi_loop_steps(lsi_loop *loop);

/* Makes a checkpoint; values as in lsi_resume_save. Collective. */
ls_status lsi_loop_save(lsi_loop *loop, const char *const *values);

#endif

/*
 * The pieces of a training loop. A job calls them from top to bottom, on every
 * rank:
 *
 *     lsi_loop_agree       compares the settings of all ranks
 *     lsi_loop_plan        plans memory and result, and finds a checkpoint
 *     lsi_loop_make        chooses the strategy and makes the model
 *     lsi_loop_open        makes the optimizer and loads the checkpoint
 *     for each step:
 *         lsi_loop_gradients   micro-steps (batch, forward, backward), one sync
 *         lsi_loop_update      the optimizer's step
 *         lsi_loop_is_due      whether to call lsi_loop_save
 *         lsi_loop_end_step
 *     lsi_loop_finish      writes the model, ends all ranks with one outcome
 *     lsi_loop_close       after an error, too
 *
 * Between these calls the job does its own work. Work that may fail on one
 * rank alone goes through lsi_loop_share, and what is written after a step
 * through lsi_loop_report.
 */
#ifndef LS_TRAIN_LOOP_H
#define LS_TRAIN_LOOP_H

#include "lockstep/group.h"
#include "lockstep/parallel.h"
#include "model/nets/model.h"
#include "train/audit.h"
#include "train/ddp_choice.h"
#include "train/divergence.h"
#include "train/keep.h"
#include "train/recipe.h"
#include "train/resume.h"

/* The training of a job. */
typedef struct lsi_training {
    ls_params *params;      /* NULL until lsi_loop_make */
    int64_t parameters;     /* elements of all parameters */
    lsi_layer_sizes layers; /* freed by lsi_loop_close */
    ls_ddp_options ddp;     /* strategy unused with choose_ddp */
    bool choose_ddp;        /* the loop chooses the strategy */
    lsi_recipe recipe;
    int64_t total_steps; /* optimizer steps of the run */
    int64_t accumulate;  /* micro-steps of most steps */
    int slices;          /* of a rank's batch (train/slices.h); 0: 1 */
    ls_dtype dtype;      /* type of matrix products */
    double step_weight;  /* weight of a step's samples on all ranks */
    bool measures_norm;  /* measure the gradient norm without clipping, too */
    double guess;        /* loss of equal probabilities: ln of the classes */
} lsi_training;

/* The job's functions that the loop calls; they get `self`. */
typedef struct lsi_train_job {
    /* Makes the model, equal in each call. Collective. */
    ls_status (*make)(void *self, ls_params **out);
    /*
     * Replaces the initial values by those of a file, which only rank 0 needs
     * to have. With an ls_ddp, collective; without one, called on rank 0 only,
     * before the weights go to all ranks. May be NULL.
     */
    ls_status (*load)(void *self, ls_ddp *ddp);
    /* Frees the model; does nothing without one. */
    void (*unmake)(void *self);
    /*
     * Starts a measurement of strategies: `forward` reads the first
     * micro-steps again. Returns their number, equal on all ranks.
     */
    int64_t (*rehearse)(void *self);
    /*
     * Reads a batch and computes its loss. Errors stick to the tape. A model
     * with collectives makes them after an error, too.
     */
    lsi_forward (*forward)(void *self, int64_t micro_step);
    /* Counts a micro-step whose backward pass went well. */
    ls_status (*add)(void *self, const lsi_forward *out);
    /* Samples that all ranks have trained on, for the audit. */
    int64_t (*samples)(void *self);
    /* Writes the trained model to a file. On rank 0 only. */
    ls_status (*save)(void *self, const char *path);
} lsi_train_job;

typedef enum lsi_loop_phase {
    LSI_LOOP_NEW,
    LSI_LOOP_PLANNED,
    LSI_LOOP_MADE,
    LSI_LOOP_OPEN,      /* between two steps */
    LSI_LOOP_GRADIENTS, /* gradients are summed over the ranks */
    LSI_LOOP_UPDATED,   /* the optimizer has used them */
    LSI_LOOP_FINISHED
} lsi_loop_phase;

/* A checkpoint of this step is whole. */
typedef void (*lsi_saved_fn)(void *context, int64_t step, const char *folder);

typedef struct lsi_loop {
    const lsi_train_job *job;
    void *self;            /* first argument of the job's functions */
    lsi_saved_fn on_saved; /* or NULL; called on every rank */
    void *context;         /* first argument of on_saved */
    ls_group *group;
    bool *agreed; /* as in lsi_share_outcome */
    lsi_resume resume;
    lsi_keep *keep;        /* place of the result; NULL: none is saved */
    lsi_audit_run *audit;  /* or NULL */
    lsi_training training; /* filled by the job before lsi_loop_agree, except
                              `parameters` and `layers`: before
                              lsi_loop_plan */
    lsi_run_config run;    /* settings that checkpoints do not record */
    /* Members below are set by the loop. */
    lsi_loop_phase phase;
    ls_checkpoint *found;  /* checkpoint to resume from, or NULL */
    lsi_ddp_choice choice; /* choice of the strategy */
    int64_t choices;       /* number of choices, also before the checkpoint */
    bool rehearses;        /* steps are measured and not counted */
    ls_ddp *ddp;           /* with deferred scale */
    lsi_stepper stepper;
    ls_tape *tape;
    uint64_t began; /* start of the current step, for its span */
    lsi_divergence divergence;
    int stopped_by; /* a signal (stop.h), on all ranks after the same step */
    int64_t saved;  /* step of the newest checkpoint of this job; 0: none */
} lsi_loop;

/* A new loop. The options must outlive it. */
lsi_loop lsi_loop_of(ls_group *group, const lsi_train_job *job, void *self,
                     const lsi_resume_options *resume, bool *agreed);

/* One outcome for all ranks, as lsi_share_outcome. Collective. */
ls_status lsi_loop_share(const lsi_loop *loop, ls_status own);

/*
 * One outcome of the job's preparation, as lsi_share_outcome. Then all ranks
 * must have the same settings: those of `run`, to which the loop adds its own,
 * and of resume.config. LS_ERR_MISMATCH, on all ranks, names the first that
 * differs. Collective.
 */
ls_status lsi_loop_agree(lsi_loop *loop, ls_status own);

/*
 * Refuses a training for which memory does not suffice. Opens the checkpoint to
 * resume from (loop.found), and makes sure that the result can be written
 * (lsi_keep_open, on rank 0). Collective.
 */
ls_status lsi_loop_plan(lsi_loop *loop);

/*
 * Settles the recipe, measures the strategies if one is to be chosen, and makes
 * the model. Collective.
 */
ls_status lsi_loop_make(lsi_loop *loop);

/*
 * Makes the optimizer and the tape and loads the checkpoint. From now on a
 * request to end (stop.h) sets stopped_by at the end of a step. Collective.
 */
ls_status lsi_loop_open(lsi_loop *loop);

/* Gradients of n micro-steps, summed over the ranks. Collective. */
ls_status lsi_loop_gradients(lsi_loop *loop, int64_t n);

/*
 * Takes the optimizer's step with them, and makes its entry in the audit. A
 * loss that is infinite or NaN is an error of all ranks, as is such a norm of
 * gradients unless losses are scaled. If the recipe says so, so are a loss that
 * has stayed high (divergence.h) and copies of ranks that differ
 * (LS_ERR_CORRUPT). Collective.
 */
ls_status lsi_loop_update(lsi_loop *loop);

/*
 * As lsi_loop_share, of what the job writes between two steps. Where something
 * cannot be written (LS_ERR_IO) the run is over: the model is written as it is,
 * and the error says so. Collective.
 */
ls_status lsi_loop_report(lsi_loop *loop, ls_status own);

/*
 * After a validation: LS_OK for a loss that is finite. Else an error that says
 * what to try and what is kept. Local; the loss is finite on all ranks, or on
 * none.
 */
ls_status lsi_loop_check_validation(lsi_loop *loop, double loss);

/*
 * Whether the run ends before its last step: a signal has stopped it, or a
 * verification has compared all steps of its segment.
 */
static inline bool lsi_loop_is_ending(const lsi_loop *loop)
{
    return loop->stopped_by != 0 || lsi_audit_has_ended(loop->audit);
}

/* Whether to save after this step. */
bool lsi_loop_is_due(const lsi_loop *loop);

/*
 * Makes a checkpoint; values as in lsi_resume_save. If it cannot be written the
 * model is, as by lsi_loop_report. Collective.
 */
ls_status lsi_loop_save(lsi_loop *loop, const char *const *values);

void lsi_loop_end_step(lsi_loop *loop);

/*
 * After the last step, or once the loop is ending: weights become their
 * averages, if the recipe has any, and rank 0 writes the model. A run that a
 * signal stopped writes it only if it makes no checkpoints, and ends with an
 * error that says what was saved. Collective.
 */
ls_status lsi_loop_finish(lsi_loop *loop);

/* Releases the loop and the model. Keeps the error of a failed run. */
void lsi_loop_close(lsi_loop *loop);

#endif

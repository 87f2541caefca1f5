/*
 * Checkpoints of a training job: where they are kept, when one is made, and
 * from which one the job resumes.
 */
#ifndef LS_TRAIN_RESUME_H
#define LS_TRAIN_RESUME_H

#include "lockstep/checkpoint.h"
#include "model/checkpoint/lock.h"
#include "train/recipe.h"
#include "train/run_config.h"

typedef struct lsi_resume_options {
    const char *folder; /* folder of the checkpoints; NULL: none */
    int64_t every;      /* steps of the optimizer; 0: none is made */
    int64_t keep;       /* number of newest checkpoints to keep; 0: all */
    bool resume;        /* go on from the newest, if there is one */
    int64_t most;       /* newest step to go on from; 0: any */
    bool new_schedule;  /* its learning rate and schedule may be other ones */
    const char *run;    /* what the launcher calls this run and its restarts;
                           kept with each checkpoint; NULL: no name */
    bool of_run_only;   /* go on only from what this run has saved */
} lsi_resume_options;

enum { LSI_JOB_VALUES = 16 };

typedef struct lsi_resume {
    ls_group *group;
    const lsi_resume_options *options;
    lsi_run_config config;
    const char *const *metadata; /* as in ls_checkpoint_parts */
    bool *agreed;                /* as in lsi_share_outcome */
    lsi_folder_lock lock;
} lsi_resume;

/*
 * Opens the checkpoint to resume from. *out is the caller's, or NULL if the job
 * begins at its beginning, because no save in the folder has been completed. It
 * is an error if a save was completed and the job is not to resume from it, or
 * if none of them is whole any more. It is also an error if a setting differs,
 * or if another run saves there: a job that saves locks the folder until
 * lsi_resume_close. Collective.
 */
ls_status lsi_resume_open(lsi_resume *resume, ls_checkpoint **out);

/* Local. */
void lsi_resume_close(lsi_resume *resume);

/* Whether a checkpoint is to be made after `step` steps. */
bool lsi_resume_is_due(const lsi_resume *resume, int64_t step);

/*
 * Makes a checkpoint of the stepper's step. Its values are the settings and
 * `values`, in the form of ls_checkpoint_parts, at most LSI_JOB_VALUES pairs.
 * Collective.
 */
ls_status lsi_resume_save(lsi_resume *resume, const ls_params *params,
                          const lsi_stepper *stepper,
                          const char *const *values);

/* Loads the parameters and the state of the stepper. Collective. */
ls_status lsi_resume_load(const ls_checkpoint *checkpoint, ls_params *params,
                          lsi_stepper *stepper);

/* A value that is a whole number, not negative; LS_ERR_FORMAT names it. */
ls_status lsi_resume_number(const ls_checkpoint *checkpoint, const char *key,
                            int64_t *out);

/* As lsi_resume_number, for a finite number. */
ls_status lsi_resume_real(const ls_checkpoint *checkpoint, const char *key,
                          double *out);

#endif

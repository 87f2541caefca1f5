/*
 * The language model job: tokens, model, optimizer, steps, validation, result.
 */
#ifndef LS_TRAIN_JOBS_LM_H
#define LS_TRAIN_JOBS_LM_H

#include "lockstep/data.h"
#include "lockstep/group.h"
#include "lockstep/parallel.h"
#include "lockstep/tokenizer.h"
#include "lockstep/transformer.h"
#include "train/loop.h"

typedef struct lsi_lm_options {
    const char *data; /* NULL: the built-in text */
    ls_token_format format;
    ls_transformer_config model;
    int64_t length; /* tokens of a sequence; 0: the model's context */
    const ls_tokenizer *tokenizer; /* of the data; text is encoded; or NULL */
    bool text_vocabulary; /* if the data are text: 256 instead of the model's */
    bool not_bytes;       /* the model has other tokens: text is refused */
    const char *init;     /* file with initial weights, or NULL */
    int64_t steps;
    int64_t batch_size;      /* sequences of a rank in a micro-step */
    int64_t accumulate;      /* micro-steps of a step, unless: */
    int64_t tokens_per_step; /* over all ranks; 0: as accumulate says */
    int64_t slices; /* of all ranks' batches together; 0: one per rank */
    lsi_recipe recipe;
    ls_dtype dtype;           /* type of matrix products */
    double dropout;           /* probability, 0 <= p < 1 */
    bool recompute;           /* backward computes blocks again */
    ls_ddp_options ddp;       /* strategy unused with choose_ddp */
    bool choose_ddp;          /* the strategy is to be chosen */
    int64_t validate_every;   /* steps; 0: never */
    int64_t validate_batches; /* of each rank */
    uint64_t seed;
    lsi_keep *keep; /* of the result; NULL: nothing is kept */
    lsi_resume_options resume;
    lsi_audit_run *audit; /* or NULL */
} lsi_lm_options;

/* The training that is about to begin. */
typedef struct lsi_lm_start {
    const ls_transformer_config *model;
    int64_t parameters;
    int64_t length; /* tokens of a sequence */
    int64_t train_tokens, val_tokens;
    int64_t step_tokens;      /* of all ranks in a step */
    int64_t step;             /* of the checkpoint to resume from, or 0 */
    double loss;              /* of that step */
    int64_t told;             /* steps and validations reported before `step` */
    const lsi_recipe *recipe; /* recipe of the training */
    const lsi_ddp_choice *choice; /* choice of the strategy */
    int64_t choices; /* number of strategy choices reported so far */
} lsi_lm_start;

/* The result of a step: the same on all ranks, except for the seconds. */
typedef struct lsi_lm_step {
    int64_t step; /* from 1 */
    double loss;  /* before the step, over all ranks */
    double lr;
    double gradient_norm; /* before it is clipped; not finite: skipped */
    double loss_scale;    /* from now on; 0: losses are not scaled */
    int64_t skipped;      /* steps so far */
    uint64_t compared;    /* bytes of a rank found equal to copies so far */
    double seconds;
} lsi_lm_step;

/* Callbacks, each called on every rank. */
typedef struct lsi_lm_events {
    void *context;
    /* The last place to refuse something, such as a file to write. */
    ls_status (*begin)(void *context, const lsi_lm_start *start);
    ls_status (*step)(void *context, const lsi_lm_step *step);
    /* After `step` steps; 0: before the first. */
    ls_status (*validation)(void *context, int64_t step, double loss);
    lsi_saved_fn saved; /* or NULL */
} lsi_lm_events;

/*
 * Runs the job. The last tenth of the tokens is for validation. Collective. If
 * it fails with *agreed true, all ranks have the same error.
 */
ls_status lsi_train_lm(ls_group *group, const lsi_lm_options *options,
                       const lsi_lm_events *events, bool *agreed);

#endif

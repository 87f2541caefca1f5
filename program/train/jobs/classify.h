/*
 * The image classification job: data, network, optimizer, epochs, validation,
 * result.
 */
#ifndef LS_TRAIN_JOBS_CLASSIFY_H
#define LS_TRAIN_JOBS_CLASSIFY_H

#include "lockstep/group.h"
#include "model/nets/image_net.h"
#include "train/jobs/epochs.h"
#include "train/resume.h"

typedef struct lsi_classify_options {
    const char *name;       /* name of the job in its checkpoints */
    const char *model;      /* a row of image_nets.def */
    const char *data;       /* path; NULL: the built-in set */
    bool cifar100;          /* the data are those of `train cifar100` */
    int64_t image_size;     /* 0: that of the data */
    bool augment;           /* flip and crop */
    bool verify;            /* one rank of each node compares checksums */
    double label_smoothing; /* 0: none */
    int64_t limit; /* training samples to use; 0: all, 5,000 built-in */
    int64_t epochs;
    int64_t batch_size; /* of a rank */
    int64_t accumulate;
    int64_t slices; /* of all ranks' batches together; 0: the usual */
    int64_t prefetch, loader_threads;
    lsi_recipe recipe;
    ls_dtype dtype; /* type of matrix products */
    lsi_net_norm norm;
    ls_ddp_options ddp; /* strategy unused with choose_ddp */
    bool choose_ddp;    /* the strategy is to be chosen */
    bool dropout;
    uint64_t seed;
    lsi_keep *keep; /* of the result; NULL: nothing is kept */
    lsi_resume_options resume;
    lsi_audit_run *audit; /* or NULL */
} lsi_classify_options;

/* The training that is about to begin. */
typedef struct lsi_classify_start {
    int64_t train_images, val_images;
    int64_t step;        /* of the checkpoint from which it goes on, or 0 */
    int64_t epoch;       /* in which it begins */
    int64_t total_steps; /* of the optimizer, in all epochs */
    int64_t parameters;
    const lsi_recipe *recipe;     /* recipe of the training */
    const lsi_ddp_choice *choice; /* choice of the strategy */
    int64_t choices; /* number of strategy choices reported so far */
} lsi_classify_start;

/*
 * Results of an epoch on one rank. Members are F64 only: ranks send the struct.
 */
typedef struct lsi_rank_epoch {
    double train_loss, train_accuracy;
    double train_seconds, waited_seconds; /* waited for data */
    double images;                 /* images that the rank trained with */
    double val_loss, val_accuracy; /* validation on the rank's share */
    double peak_bytes;             /* most that it held at once */
} lsi_rank_epoch;

/* Results of an epoch; complete on rank 0 only. */
typedef struct lsi_epoch {
    int64_t epoch;
    double train_loss, train_accuracy;
    double train_seconds;     /* of the slowest rank; training alone */
    double images_per_second; /* over all ranks, of training */
    double waited_seconds;    /* for data, of the rank that waited most */
    double val_loss, val_accuracy;
    double loss_scale;   /* after it; 0: losses are not scaled */
    int64_t skipped;     /* steps so far, in all epochs */
    uint64_t compared;   /* bytes of a rank found equal to copies so far */
    uint64_t peak_bytes; /* most that a rank held at once in the epoch */
    /* [ranks], on rank 0 and until the call has ended; else NULL. */
    const lsi_rank_epoch *ranks;
    /* Of rank 0 in the epoch, with validation, without checkpoints. */
    uint64_t collectives;
} lsi_epoch;

/* Callbacks, each called on every rank. */
typedef struct lsi_classify_events {
    void *context;
    /*
     * The data are loaded and all ranks are about to start. The last place to
     * refuse something, such as a file that cannot be written.
     */
    ls_status (*begin)(void *context, const lsi_classify_start *start);
    lsi_step_fn step; /* or NULL */
    ls_status (*epoch)(void *context, const lsi_epoch *epoch);
    lsi_saved_fn saved; /* or NULL */
} lsi_classify_events;

/*
 * Runs the job. Collective. If it fails with *agreed true, all ranks have the
 * same error, and one of them is enough to print it.
 */
ls_status lsi_classify_train(ls_group *group,
                             const lsi_classify_options *options,
                             const lsi_classify_events *events, bool *agreed);

#endif

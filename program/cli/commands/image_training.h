/*
 * What every command does that trains a network for images.
 */
#ifndef LS_CLI_COMMANDS_IMAGE_TRAINING_H
#define LS_CLI_COMMANDS_IMAGE_TRAINING_H

#include "cli/commands/ddp_flags.h"
#include "cli/commands/resume_flags.h"
#include "cli/frame/command.h"
#include "cli/frame/dtype_flag.h"
#include "cli/frame/ranks.h"
#include "report/run_log.h"
#include "train/recipe.h"

/* What the flags of a command say. */
typedef struct lsi_image_flags {
    const char *name;  /* of the job */
    const char *model; /* a row of image_nets.def */
    bool cifar100;     /* the data are CIFAR-100; no flags for others */
    int64_t image_size;
    bool augment, verify;
    double label_smoothing;
    lsi_rank_flags ranks;
    const char *data;
    int64_t epochs, batch_size, accumulate, slices, limit, prefetch;
    int64_t loader_threads, seed;
    lsi_recipe recipe;
    const char *dtype;
    lsi_resume_options resume;
    const char *sync_bn;
    lsi_ddp_flags ddp;
    bool dropout, deterministic;
    const char *save;
    lsi_run_outputs outputs;
} lsi_image_flags;

/* Starts from these, parses the command's flags and runs it. */
int lsi_cli_train_images(const lsi_invocation *call,
                         const lsi_image_flags *usual);

#endif

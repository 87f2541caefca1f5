/* The common part of commands that train a network for images. */
#ifndef LS_CLI_COMMANDS_IMAGE_TRAINING_H
#define LS_CLI_COMMANDS_IMAGE_TRAINING_H

#include "cli/commands/audit_flags.h"
#include "cli/commands/ddp_flags.h"
#include "cli/commands/keep_flags.h"
#include "cli/commands/output_flags.h"
#include "cli/commands/recipe_flags.h"
#include "cli/commands/resume_flags.h"
#include "cli/frame/bits_flag.h"
#include "cli/frame/command.h"
#include "cli/frame/config_file.h"
#include "cli/frame/dtype_flag.h"
#include "cli/frame/ranks.h"

/* Values of a command's flags. */
typedef struct lsi_image_flags {
    const char *name;  /* of the job */
    const char *model; /* a row of image_nets.def */
    bool cifar100;     /* the data are CIFAR-100; no flags for others */
    int64_t image_size;
    bool augment, verify;
    double label_smoothing;
    const char *config;
    lsi_rank_flags ranks;
    const char *data;
    int64_t epochs, batch_size, accumulate, slices, limit, prefetch;
    int64_t loader_threads, seed;
    lsi_recipe recipe;
    const char *dtype, *bits;
    lsi_resume_options resume;
    const char *sync_bn;
    lsi_ddp_flags ddp;
    bool dropout, deterministic;
    lsi_keep_flags keep;
    lsi_run_outputs outputs;
    lsi_audit_flags audit;
} lsi_image_flags;

/*
 * The flags of every command that trains a network for images, but for those
 * that only one of them has. ROW(...) is LSI_OPTION(lsi_image_flags, ...).
 */
/* clang-format off */
#define LSI_IMAGE_ROWS(data_help, usual_prefetch)                                       \
    LSI_CONFIG_ROW(config),                                                             \
    LSI_RANK_ROWS(ranks, "1"),                                                          \
    LSI_DETERMINISTIC_ROW(deterministic),                                               \
    ROW(data, STRING, "data", 0, "PATH", NULL, data_help),                              \
    ROW(epochs, INT, "epochs", 'e', "N", "10", "passes over the data", .min = 1,        \
        .max = 1e6),                                                                    \
    ROW(batch_size, INT, "batch-size", 'b', "N", "64",                                  \
        "images per micro-step on each rank", .min = 1, .max = 1e6),                    \
    ROW(accumulate, INT, "accumulate", 0, "N", "1",                                     \
        "micro-steps per optimizer step", .min = 1, .max = 1e6),                        \
    LSI_SLICES_ROW(slices, "one per rank; for cifar-net on 1, 2 and 4 ranks: 4"),       \
    LSI_RECIPE_ROWS("sgd", "constant", LSI_NO_WARMUP, "0"),                             \
    LSI_BITS_ROW(bits),                                                                 \
    LSI_DTYPE_ROW(dtype),                                                               \
    ROW(sync_bn, CHOICE, "sync-bn", 0, "KIND", "fused",                                 \
        "batch normalisation (fused: over all ranks, with one collective in forward "   \
        "and one in backward; gathered: over all ranks, as most frameworks do; off: "   \
        "separately on each rank)",                                                     \
        .choices = "fused|gathered|off"),                                               \
    ROW(dropout, BOOL, "dropout", 0, NULL, "true", "use dropout"),                      \
    LSI_DDP_ROWS(ddp),                                                                  \
    ROW(seed, INT, "seed", 's', "N", "0",                                               \
        "seed of the initial weights, the order of samples and dropout", .min = 0,      \
        .max = 9e15),                                                                   \
    ROW(limit, INT, "limit", 0, "N", "0",                                               \
        "train only on the first N images; 0: all images. The built-in set has N "      \
        "images, or 5,000 with 0",                                                      \
        .min = 0, .max = 1e9),                                                          \
    ROW(prefetch, INT, "prefetch", 0, "N", usual_prefetch,                              \
        "number of batches to read ahead in separate threads; 0: none, or 2 with "      \
        "--loader-threads", .min = 0, .max = 1024),                                     \
    ROW(loader_threads, INT, "loader-threads", 0, "N", "1",                             \
        "number of threads per rank that read ahead; it does not change the data",      \
        .min = 1, .max = 64),                                                           \
    LSI_KEEP_ROWS(keep, ""),                                                            \
    LSI_OUTPUT_ROWS("each epoch"),                                                      \
    LSI_RESUME_ROWS(resume),                                                            \
    LSI_AUDIT_ROWS(audit)
/* clang-format on */

/* Starts from these, parses the command's flags and runs it. */
int lsi_cli_train_images(const lsi_invocation *call,
                         const lsi_image_flags *usual);

#endif

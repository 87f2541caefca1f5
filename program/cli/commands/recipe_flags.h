/*
 * The flags of a recipe, for every command that trains, as rows of its options:
 *
 *     struct args { lsi_recipe recipe; ... };
 *     #define ROW(...) LSI_OPTION(struct args, __VA_ARGS__)
 *     static const lsi_option options[] = {
 *         LSI_RECIPE_ROWS("sgd", "constant", LSI_NO_WARMUP, "0"), ...};
 */
#ifndef LS_CLI_COMMANDS_RECIPE_FLAGS_H
#define LS_CLI_COMMANDS_RECIPE_FLAGS_H

#include "base/options.h"
#include "model/optim/optimizer.h"
#include "train/recipe.h"

/* "|sgd|adamw|lion" */
static const char optimizer_choices[] =
#define X(name, ...) "|" #name
    LSI_OPTIMIZERS(X, LSI_OPTIMIZER_NOT)
#undef X
    ;

static const char lr_help[] = "peak learning rate; by default"
#define X(name, lr, ...) ", " #lr " with " #name
    LSI_OPTIMIZERS(X, LSI_OPTIMIZER_NOT)
#undef X
    ;

static const char decay_help[] = "decoupled weight decay; by default"
#define X(name, lr, weight_decay) ", " #weight_decay " with " #name
    LSI_OPTIMIZERS(X, LSI_OPTIMIZER_NOT)
#undef X
        "; with --resume, the value in the checkpoint";

/* A default as text. */
#define LSI_DEFAULT_REAL(value)   #value
#define LSI_DEFAULT_CHOICE(value) value

/* Default and help of --warmup-steps: none, or some that fit the schedule. */
#define LSI_NO_WARMUP                                                          \
    "0", "number of first steps in which the learning rate rises from 0"
#define LSI_SOME_WARMUP                                                        \
    NULL, "number of first steps in which the learning rate rises from 0 "     \
          "(default: 0; with cosine, linear and wsd: a twentieth of --steps, " \
          "at most 2000)"

/* clang-format off */
#define LSI_OPTIMIZER_FLAG_ROW(kind, owner, field, name, value, usual, help, ...)       \
    ROW(recipe.flags.field, kind, name, 0, value, LSI_DEFAULT_##kind(usual), help,      \
        __VA_ARGS__),

#define LSI_RECIPE_ROWS(usual_optimizer, usual_schedule, warmup, usual_clip)            \
    ROW(recipe.optimizer, CHOICE, "optimizer", 0, "NAME", usual_optimizer,              \
        "optimizer", .choices = optimizer_choices + 1),                                 \
    ROW(recipe.lr, REAL, "lr", 0, "X", NULL, lr_help, .min = 1e-12, .max = 1e6),        \
    LSI_OPTIMIZERS(LSI_OPTIMIZER_NOT, LSI_OPTIMIZER_FLAG_ROW)                           \
    ROW(recipe.flags.weight_decay, REAL, "weight-decay", 0, "X", NULL, decay_help,      \
        .unset = -1, .min = 0, .max = 1e6),                                             \
    ROW(recipe.schedule, CHOICE, "schedule", 0, "NAME", usual_schedule,                 \
        "schedule of the learning rate after the warm-up (one-cycle: rises and then "   \
        "falls, each along half a cosine; wsd: stays constant and falls linearly at "   \
        "the end; docs/how-to/training.md)",                                            \
        .choices = "constant|cosine|linear|inverse-sqrt|wsd|one-cycle"),                \
    ROW(recipe.decay_steps, INT, "decay-steps", 0, "N", "0",                            \
        "number of last steps in which the learning rate of wsd falls; 0: a tenth of "  \
        "all steps", .min = 0,                                                          \
        .max = 1e12),                                                                   \
    ROW(recipe.warmup_steps, INT, "warmup-steps", 0, "N", warmup, .unset = -1,          \
        .min = 0, .max = 1e12),                                                         \
    ROW(recipe.min_lr, REAL, "min-lr", 0, "X", "0",                                     \
        "final learning rate of schedules that end with a lower rate",                  \
        .min = 0, .max = 1e6),                                                          \
    ROW(recipe.clip_norm, REAL, "clip-norm", 0, "X", usual_clip,                        \
        "largest global norm of the gradients; 0: no limit", .min = 0,                  \
        .max = 1e30),                                                                   \
    ROW(recipe.ema, REAL, "ema", 0, "DECAY", "0",                                       \
        "decay of an exponential moving average (EMA) of the weights, such as "         \
        "0.999; the EMA weights are validated and saved (docs/how-to/training.md). 0: " \
        "no EMA", .min = 0, .max = 0.9999999),                                          \
    ROW(recipe.divergence_check, BOOL, "divergence-check", 0, NULL, "true",             \
        "end the run when the loss has stayed high for 50 steps "                       \
        "(docs/how-to/training.md)"),                                                   \
    ROW(recipe.check_replicas, INT, "check-replicas", 0, "K", "0",                      \
        "compare the ranks' copies of weights and optimizer state every K steps, and "  \
        "of summed gradients in each step, and end the run if they differ "             \
        "(docs/how-to/training.md). 0: never", .min = 0, .max = 1e12)
/* clang-format on */

#endif

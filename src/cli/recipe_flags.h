/*
 * The flags of a recipe, for every command that trains:
 *
 *     struct args { lsi_recipe recipe; ... };
 *     #define ROW(...) LSI_OPTION(struct args, __VA_ARGS__)
 *     static const lsi_option options[] = {LSI_RECIPE_ROWS(recipe, "sgd"),
 * ...};
 */
#ifndef LS_CLI_RECIPE_FLAGS_H
#define LS_CLI_RECIPE_FLAGS_H

#include "base/options.h"
#include "train/recipe.h"

/* `usual` is the optimizer if the command is told none. */
#define LSI_RECIPE_ROWS(field, usual)                                          \
    ROW(field.optimizer, CHOICE, "optimizer", 0, "NAME", usual,                \
        "what turns gradients into steps", .choices = "sgd|adamw"),            \
        ROW(field.lr, REAL, "lr", 0, "X", NULL,                                \
            "learning rate, of a schedule the largest (default 0.01 with "     \
            "sgd, "                                                            \
            "0.001 with adamw)",                                               \
            .min = 1e-12, .max = 1e6),                                         \
        ROW(field.momentum, REAL, "momentum", 0, "X", "0.5", "of sgd",         \
            .min = 0, .max = 0.999999),                                        \
        ROW(field.beta1, REAL, "beta1", 0, "X", "0.9",                         \
            "of adamw, for the mean of gradients", .min = 0, .max = 0.999999), \
        ROW(field.beta2, REAL, "beta2", 0, "X", "0.999",                       \
            "of adamw, for the mean of their squares", .min = 0,               \
            .max = 0.999999),                                                  \
        ROW(field.eps, REAL, "eps", 0, "X", "1e-8", "of adamw", .min = 1e-30,  \
            .max = 1),                                                         \
        ROW(field.weight_decay, REAL, "weight-decay", 0, "X", "0",             \
            "of either optimizer", .min = 0, .max = 1e6),                      \
        ROW(field.decay_order, CHOICE, "decay-order", 0, "ORDER", "first",     \
            "whether adamw decays weights before its step, as PyTorch does, "  \
            "or after",                                                        \
            .choices = "first|last"),                                          \
        ROW(field.schedule, CHOICE, "schedule", 0, "NAME", "constant",         \
            "how the learning rate goes on after its warm-up: not at all, or " \
            "down half a cosine until the last step",                          \
            .choices = "constant|cosine"),                                     \
        ROW(field.warmup_steps, INT, "warmup-steps", 0, "N", "0",              \
            "steps in which the learning rate rises from 0", .min = 0,         \
            .max = 1e12),                                                      \
        ROW(field.min_lr, REAL, "min-lr", 0, "X", "0",                         \
            "where the cosine ends", .min = 0, .max = 1e6),                    \
        ROW(field.clip_norm, REAL, "clip-norm", 0, "X", "0",                   \
            "limit of the norm of all gradients together; 0: none", .min = 0,  \
            .max = 1e30)

#endif

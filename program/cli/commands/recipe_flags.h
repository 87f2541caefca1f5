/*
 * What the flags of a recipe (cli/commands/recipe_rows.def) say of all
 * optimizers.
 */
#ifndef LS_CLI_COMMANDS_RECIPE_FLAGS_H
#define LS_CLI_COMMANDS_RECIPE_FLAGS_H

#include "base/options.h"
#include "model/optim/optimizer.h"
#include "train/recipe.h"

/* "|sgd|adamw|lion" */
static const char optimizer_choices[] =
#define X(name, ...) "|" #name
#include "model/optim/optimizers.def"
#undef X
    ;

static const char lr_help[] =
    "learning rate, of a schedule the largest; unless given"
#define X(name, lr, ...) ", " #lr " with " #name
#include "model/optim/optimizers.def"
#undef X
    ;

static const char decay_help[] =
    "share of the weights, times the learning rate, that a step takes off "
    "them; unless given"
#define X(name, lr, weight_decay) ", " #weight_decay " with " #name
#include "model/optim/optimizers.def"
#undef X
    ", or what the checkpoint has that --resume goes on from";

#endif

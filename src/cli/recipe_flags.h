/*
 * What the flags of a recipe (cli/recipe_rows.def) say of all optimizers.
 */
#ifndef LS_CLI_RECIPE_FLAGS_H
#define LS_CLI_RECIPE_FLAGS_H

#include "base/options.h"
#include "optim/optimizer.h"
#include "train/recipe.h"

/* "|sgd|adamw" */
static const char optimizer_choices[] =
#define X(name, lr) "|" #name
#include "optim/optimizers.def"
#undef X
    ;

static const char lr_help[] =
    "learning rate, of a schedule the largest; unless given"
#define X(name, lr) ", " #lr " with " #name
#include "optim/optimizers.def"
#undef X
    ;

#endif

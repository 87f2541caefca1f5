/* lockstep eval NAME: one child for each row of evals.def. */
#include "cli/frame/command.h"

#define X(id) extern const lsi_command lsi_command_eval_##id;
#include "cli/commands/evals.def"
#undef X

static const lsi_command *const evals[] = {
#define X(id) &lsi_command_eval_##id,
#include "cli/commands/evals.def"
#undef X
};

const lsi_command lsi_command_eval = {
    .name = "eval",
    .summary = "Measure how good a trained model is",
    .children = evals,
    .n_children = sizeof(evals) / sizeof(evals[0]),
};

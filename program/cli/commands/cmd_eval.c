/* lockstep eval NAME: the list of its children. */
#include "cli/frame/command.h"

extern const lsi_command lsi_command_eval_images, lsi_command_eval_lm;

static const lsi_command *const evals[] = {&lsi_command_eval_images,
                                           &lsi_command_eval_lm};

const lsi_command lsi_command_eval = {
    .name = "eval",
    .summary = "Evaluate a trained model",
    LSI_COMMAND_CHILDREN(evals),
};

/* lockstep train NAME: one child for each row of trains.def. */
#include "cli/frame/command.h"

#define X(id) extern const lsi_command lsi_command_train_##id;
#include "cli/commands/trains.def"
#undef X

static const lsi_command *const trains[] = {
#define X(id) &lsi_command_train_##id,
#include "cli/commands/trains.def"
#undef X
};

const lsi_command lsi_command_train = {
    .name = "train",
    .summary = "Train a model on one or more ranks",
    .children = trains,
    .n_children = sizeof(trains) / sizeof(trains[0]),
};

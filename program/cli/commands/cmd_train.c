/* lockstep train NAME: the list of its children. */
#include "cli/frame/command.h"

extern const lsi_command lsi_command_train_cifar100, lsi_command_train_images,
    lsi_command_train_lm;

static const lsi_command *const trains[] = {&lsi_command_train_cifar100,
                                            &lsi_command_train_images,
                                            &lsi_command_train_lm};

const lsi_command lsi_command_train = {
    .name = "train",
    .summary = "Train a model on one or more ranks",
    LSI_COMMAND_CHILDREN(trains),
};

/*
 * lockstep train cifar100: the CIFAR-100 pipeline on one or more ranks.
 */
#include "cli/commands/image_training.h"

#define ROW(...) LSI_OPTION(lsi_image_flags, __VA_ARGS__)
static const lsi_option options[] = {
    /* Nothing is read ahead: the data is in memory. */
    LSI_IMAGE_ROWS("CIFAR-100 in binary format: a folder, or a .tar.gz or "
                   ".tar.zst file (default: built-in images of the same shape)",
                   "0"),
};

static int run_train_cifar100(const lsi_invocation *call)
{
    const lsi_image_flags usual = {
        .name = "cifar100", .model = "cifar-net", .cifar100 = true};
    return lsi_cli_train_images(call, &usual);
}

const lsi_command lsi_command_train_cifar100 = {
    .name = "cifar100",
    .summary = "Train a small network to classify images of 100 classes",
    .text =
        "Progress goes to stderr, the summary to stdout "
        "(docs/reference/training-output.md). Each line of --metrics is "
        "{\"event\":\"epoch\", \"epoch\", \"train_loss\", \"train_accuracy\", "
        "\"train_seconds\", \"waited_seconds\", \"images_per_second\", "
        "\"val_loss\", \"val_accuracy\", \"peak_bytes\", \"collectives\", "
        "\"ranks\"} (docs/reference/files.md). Epochs are counted from 1. "
        "\"waited_seconds\" is the longest time that a rank waited for data, "
        "and \"peak_bytes\" is the largest peak memory of a rank. \"ranks\" "
        "contains these numbers for each rank. With --dtype f16, a line also "
        "contains \"loss_scale\" after the epoch, and \"skipped\", the number "
        "of steps skipped so far. With --resume, the lines of epochs before "
        "the checkpoint stay, and the lines of later epochs are written again.",
    LSI_COMMAND_OPTIONS(options),
    .run = run_train_cifar100,
};

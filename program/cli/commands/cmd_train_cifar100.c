/*
 * lockstep train cifar100: the CIFAR-100 pipeline on one or more ranks.
 */
#include "cli/commands/image_training.h"

#define ROW(...) LSI_OPTION(lsi_image_flags, __VA_ARGS__)
static const lsi_option options[] = {
    /* Nothing is read ahead: the data is in memory. */
    LSI_IMAGE_ROWS("CIFAR-100 in binary format: a folder, .tar.gz or .tar.zst "
                   "(default: a built-in set of the same shape)",
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
        "(docs/reference/training-output.md). A line of --metrics is "
        "{\"event\":\"epoch\", \"epoch\", \"train_loss\", \"train_accuracy\", "
        "\"train_seconds\", \"waited_seconds\", \"images_per_second\", "
        "\"val_loss\", \"val_accuracy\", \"peak_bytes\", \"collectives\", "
        "\"ranks\"}: docs/reference/files.md describes them. Epochs count from "
        "1, waited_seconds is the longest wait of a rank for data, and "
        "peak_bytes the peak memory of the largest rank. ranks has these "
        "numbers for each rank. With --dtype f16 a line also has "
        "\"loss_scale\", after the epoch, and \"skipped\", the steps skipped "
        "so far. With --resume, the lines of epochs before the checkpoint "
        "stay, and the later ones are written again.",
    LSI_COMMAND_OPTIONS(options),
    .run = run_train_cifar100,
};

/*
 * lockstep train images: a network that tells classes of images apart, on one
 * or more ranks.
 */
#include "cli/commands/image_training.h"

static const char model_choices[] =
#define X(id, text) "|" text
#include "model/nets/image_nets.def"
#undef X
    ;

static const char data_help[] =
    "images to train on, in one of these forms (docs/how-to/images.md): "
#define SOURCE(name, text, ...) text "; "
#include "input/data/image_sources.def"
#undef SOURCE
    "without --data: built-in images of 3 x 32 x 32. If the data have no "
    "validation set, a random tenth of the images becomes one, which follows "
    "from --seed";

#define ROW(...) LSI_OPTION(lsi_image_flags, __VA_ARGS__)
static const lsi_option options[] = {
    ROW(model, CHOICE, "arch", 0, "NAME", "resnet18",
        "network (docs/how-to/images.md)", .choices = &model_choices[1]),
    ROW(image_size, INT, "image-size", 0, "N", "0",
        "resize and crop images to N x N pixels; 0: to the size of the images "
        "in the data",
        .min = 0, .max = 4096),
    ROW(augment, BOOL, "augment", 0, NULL, NULL,
        "mirror training images at random, and crop them at random after "
        "padding each side by an eighth"),
    LSI_VERIFY_DATA_ROW(verify),
    ROW(label_smoothing, REAL, "label-smoothing", 0, "X", "0",
        "share of each label that is spread evenly over all classes", .min = 0,
        .max = 1),
    LSI_IMAGE_ROWS(data_help, "2"),
};

static int run_train_images(const lsi_invocation *call)
{
    const lsi_image_flags usual = {.name = "images"};
    return lsi_cli_train_images(call, &usual);
}

const lsi_command lsi_command_train_images = {
    .name = "images",
    .summary = "Train a network to classify images",
    .text = "Progress goes to stderr, the summary to stdout. --metrics writes "
            "the same fields as `lockstep train cifar100`. --save writes the "
            "network, with the image size and the class names as metadata; "
            "`lockstep eval images` reads this file.",
    LSI_COMMAND_OPTIONS(options),
    .run = run_train_images,
};

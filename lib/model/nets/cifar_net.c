/*
 * The network of the CIFAR-100 pipeline: 825,988 parameters with 100 classes of
 * (3, 32, 32).
 *
 *     conv 3->32 3x3, relu          (N, 32, 30, 30)
 *     conv 32->32 3x3, relu         (N, 32, 28, 28)
 *     max pool 2x2, dropout .25     (N, 6272)
 *     linear 6272->128              (N, 128)
 *     batch norm without weights, relu, dropout .5
 *     linear 128->100               (N, 100)
 */
#include <inttypes.h>

#include "base/error.h"
#include "model/nets/image_net.h"

enum { CHANNELS = 32, KERNEL = 3, HIDDEN = 128, LEAST_SIDE = 6 };

typedef struct cifar_net {
    bool dropout;
    ls_conv2d_layer conv1, conv2;
    ls_linear_layer fc1, fc2;
    lsi_norm_part bn1;
} cifar_net;

static ls_tensor *maybe_drop(const cifar_net *net, ls_tape *tape, ls_tensor *x,
                             double p)
{
    return net->dropout ? ls_dropout(tape, x, p) : x;
}

static ls_tensor *logits(const void *parts, ls_tape *tape, ls_tensor *x)
{
    const cifar_net *const net = parts;
    x = ls_conv2d_layer_forward(&net->conv1, tape, x);
    x = ls_conv2d_layer_forward(&net->conv2, tape, x);
    x = maybe_drop(net, tape, ls_max_pool2d(tape, x, 2, NULL), 0.25);
    x = ls_linear_layer_forward(&net->fc1, tape, ls_flatten(tape, x));
    x = ls_relu(tape, lsi_norm_part_forward(&net->bn1, tape, x, NULL));
    return ls_linear_layer_forward(&net->fc2, tape,
                                   maybe_drop(net, tape, x, 0.5));
}

static ls_status check(const lsi_image_config *config)
{
    if (config->height >= LEAST_SIDE && config->width >= LEAST_SIDE)
        return LS_OK;
    return lsi_fail(
        LS_ERR_ARGUMENT,
        "cifar-net needs images of at least %d x %d pixels, not %" PRId64
        " x %" PRId64,
        LEAST_SIDE, LEAST_SIDE, config->height, config->width);
}

/* Two convolutions without padding, then windows of 2 x 2. */
static int64_t pooled(int64_t side)
{
    return (side - 2 * (KERNEL - 1)) / 2;
}

static void build(void *parts, lsi_net_builder *b,
                  const lsi_image_net_setup *options)
{
    const ls_conv2d_options conv = {.stride = 1, .relu = true};
    const lsi_image_config *const c = &options->config;
    cifar_net *const net = parts;
    net->dropout = options->dropout;
    LSI_BUILD(b, ls_conv2d_layer_init(&net->conv1, b->params, "conv1",
                                      c->channels, CHANNELS, KERNEL, &conv));
    LSI_BUILD(b, ls_conv2d_layer_init(&net->conv2, b->params, "conv2", CHANNELS,
                                      CHANNELS, KERNEL, &conv));
    LSI_BUILD(
        b, ls_linear_layer_init(&net->fc1, b->params, "fc1",
                                CHANNELS * pooled(c->height) * pooled(c->width),
                                HIDDEN, LS_LAYER_DEFAULT));
    lsi_build_norm(b, &net->bn1, "bn1", HIDDEN, 0);
    LSI_BUILD(b, ls_linear_layer_init(&net->fc2, b->params, "fc2", HIDDEN,
                                      c->classes, LS_LAYER_DEFAULT));
}

static void release(void *parts)
{
    cifar_net *const net = parts;
    lsi_norm_part_free(&net->bn1);
}

const lsi_image_kind lsi_image_kind_cifar_net = {.name = "cifar-net",
                                                 .slices = 4,
                                                 .bytes = sizeof(cifar_net),
                                                 .check = check,
                                                 .build = build,
                                                 .logits = logits,
                                                 .release = release};

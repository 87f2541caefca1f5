/*
 * ResNet-18 (He et al., Deep Residual Learning for Image Recognition, CVPR
 * 2016), with torchvision's names of parameters and initial values. Filters are
 * normal with variance 2 / (kernel^2 * out); the last layer is uniform in
 * +-1/sqrt(512). Images of at most 64 x 64 get a first convolution of 3x3 and
 * no pooling after it. Larger images get the first layers of the paper:
 *
 *     conv 3x3 (or 7x7, stride 2; max pool 3x3, stride 2), 64 channels
 *     2 blocks of 64, 128, 256 and 512 channels, from 128 on with stride 2
 *     mean over all places, linear 512->classes
 *
 * A block is relu(bn2(conv2(relu(bn1(conv1(x))))) + shortcut(x)); where the
 * shape changes the shortcut is a convolution of 1x1 and its normalisation.
 */
#include <math.h>
#include <stdio.h>

#include "model/nets/image_net.h"

enum {
    STAGES = 4,
    BLOCKS = 2, /* of a stage */
    WIDTH = 64,
    SMALL = 64, /* the largest side with the small stem */
    PREFIX_BYTES = 32,
    NAME_BYTES = 64
};

typedef struct block {
    ls_conv2d_layer conv1, conv2, shortcut;
    lsi_norm_part bn1, bn2, bn_shortcut;
    bool projects; /* the shortcut is a convolution */
} block;

/* Flags of all batch normalisations except those of shortcuts. */
enum { NORM_RELU = LSI_NORM_AFFINE | LSI_NORM_RELU };

typedef struct resnet {
    bool pools; /* after the first convolution */
    ls_conv2d_layer conv1;
    lsi_norm_part bn1;
    block blocks[STAGES][BLOCKS];
    ls_linear_layer fc;
} resnet;

/* ---- forward ------------------------------------------------------------- */

static ls_tensor *block_forward(const block *b, ls_tape *tape, ls_tensor *x)
{
    ls_tensor *shortcut = x;
    ls_tensor *y = ls_conv2d_layer_forward(&b->conv1, tape, x);
    y = lsi_norm_part_forward(&b->bn1, tape, y, NULL);
    y = ls_conv2d_layer_forward(&b->conv2, tape, y);
    if (b->projects) {
        shortcut = ls_conv2d_layer_forward(&b->shortcut, tape, x);
        shortcut = lsi_norm_part_forward(&b->bn_shortcut, tape, shortcut, NULL);
    }
    return lsi_norm_part_forward(&b->bn2, tape, y, shortcut);
}

static ls_tensor *logits(const void *parts, ls_tape *tape, ls_tensor *x)
{
    const resnet *const net = parts;
    const ls_pool2d_options pool = {.stride = 2, .padding = 1};
    x = ls_conv2d_layer_forward(&net->conv1, tape, x);
    x = lsi_norm_part_forward(&net->bn1, tape, x, NULL);
    if (net->pools)
        x = ls_max_pool2d(tape, x, 3, &pool);
    for (int s = 0; s < STAGES; s++)
        for (int i = 0; i < BLOCKS; i++)
            x = block_forward(&net->blocks[s][i], tape, x);
    return ls_linear_layer_forward(&net->fc, tape,
                                   ls_global_avg_pool2d(tape, x));
}

/* ---- making -------------------------------------------------------------- */

/* A convolution without bias, as before a normalisation. */
typedef struct conv_shape {
    int64_t in, out;
    int kernel, stride, padding;
} conv_shape;

static void build_conv(lsi_net_builder *b, ls_conv2d_layer *layer,
                       const char *name, conv_shape shape)
{
    char weight[NAME_BYTES + sizeof(".weight")];
    const int64_t extents[] = {shape.out, shape.in, shape.kernel, shape.kernel};
    const double variance =
        2.0 / (double)(shape.kernel * shape.kernel * shape.out);
    const ls_init init = {LS_INIT_NORMAL, 0, sqrt(variance)};
    snprintf(weight, sizeof(weight), "%s.weight", name);
    layer->options = (ls_conv2d_options){
        .stride = shape.stride, .padding = shape.padding, .no_bias = true};
    LSI_BUILD(
        b, ls_params_add(b->params, weight, 4, extents, init, &layer->weight));
}

/* The name of a layer of a block. */
static const char *name_of(char name[NAME_BYTES], const char *prefix,
                           const char *part)
{
    snprintf(name, NAME_BYTES, "%s.%s", prefix, part);
    return name;
}

static void build_block(lsi_net_builder *b, block *made, const char *prefix,
                        int64_t in, int64_t out)
{
    char name[NAME_BYTES];
    const int stride = in != out ? 2 : 1;
    made->projects = in != out;
    build_conv(b, &made->conv1, name_of(name, prefix, "conv1"),
               (conv_shape){in, out, 3, stride, 1});
    lsi_build_norm(b, &made->bn1, name_of(name, prefix, "bn1"), out, NORM_RELU);
    build_conv(b, &made->conv2, name_of(name, prefix, "conv2"),
               (conv_shape){out, out, 3, 1, 1});
    lsi_build_norm(b, &made->bn2, name_of(name, prefix, "bn2"), out, NORM_RELU);
    if (!made->projects)
        return;
    build_conv(b, &made->shortcut, name_of(name, prefix, "downsample.0"),
               (conv_shape){in, out, 1, stride, 0});
    lsi_build_norm(b, &made->bn_shortcut, name_of(name, prefix, "downsample.1"),
                   out, LSI_NORM_AFFINE);
}

static void build(void *parts, lsi_net_builder *b,
                  const lsi_image_net_setup *options)
{
    const lsi_image_config *const c = &options->config;
    resnet *const net = parts;
    int64_t in = WIDTH;
    net->pools = c->height > SMALL || c->width > SMALL;
    build_conv(b, &net->conv1, "conv1",
               net->pools ? (conv_shape){c->channels, in, 7, 2, 3}
                          : (conv_shape){c->channels, in, 3, 1, 1});
    lsi_build_norm(b, &net->bn1, "bn1", in, NORM_RELU);
    for (int s = 0; s < STAGES; s++) {
        for (int i = 0; i < BLOCKS; i++) {
            char prefix[PREFIX_BYTES];
            const int64_t out = (int64_t)WIDTH << s;
            snprintf(prefix, sizeof(prefix), "layer%d.%d", s + 1, i);
            build_block(b, &net->blocks[s][i], prefix, in, out);
            in = out;
        }
    }
    LSI_BUILD(b, ls_linear_layer_init(&net->fc, b->params, "fc", in, c->classes,
                                      LS_LAYER_DEFAULT));
}

static void release(void *parts)
{
    resnet *const net = parts;
    for (int s = STAGES - 1; s >= 0; s--) {
        for (int i = BLOCKS - 1; i >= 0; i--) {
            lsi_norm_part_free(&net->blocks[s][i].bn_shortcut);
            lsi_norm_part_free(&net->blocks[s][i].bn2);
            lsi_norm_part_free(&net->blocks[s][i].bn1);
        }
    }
    lsi_norm_part_free(&net->bn1);
}

const lsi_image_kind lsi_image_kind_resnet18 = {.name = "resnet18",
                                                .bytes = sizeof(resnet),
                                                .build = build,
                                                .logits = logits,
                                                .release = release};

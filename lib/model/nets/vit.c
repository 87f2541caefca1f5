/*
 * A small vision transformer (Dosovitskiy et al., An Image is Worth 16x16
 * Words, ICLR 2021; its blocks normalise before attention and before the two
 * linear layers), with torchvision's names of parameters and initial values:
 *
 *     patches of 4x4 for images of at most 32 x 32, of 8x8 up to 64 x 64, of
 *     16x16 above; a class token before them; learned positions
 *     6 blocks of width 192 with 3 heads and 768 inner units, GELU (by tanh)
 *     layer norm (eps 1e-6), linear 192->classes of the class token
 *
 * No dropout. The last layer begins as zeros.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "lockstep/attention.h"
#include "model/autograd/tape.h"
#include "model/nets/image_net.h"
#include "model/tensor/tensor.h"

enum {
    BLOCKS = 6,
    WIDTH = 192,
    HEADS = 3,
    INNER = 768,
    PREFIX_BYTES = 48,
    NAME_BYTES = 96
};

static const double norm_eps = 1e-6;

typedef struct norm {
    ls_tensor *weight, *bias;
} norm;

typedef struct block {
    norm ln1, ln2;
    ls_linear_layer in, out; /* of attention */
    ls_linear_layer up, down;
} block;

typedef struct vit {
    int64_t tokens; /* with the class token */
    ls_conv2d_layer patches;
    ls_tensor *class_token, *positions;
    block blocks[BLOCKS];
    norm ln;
    ls_linear_layer head;
} vit;

/* ---- forward ------------------------------------------------------------- */

static ls_tensor *normalise(const norm *n, ls_tape *tape, ls_tensor *x)
{
    return ls_layer_norm(tape, x, n->weight, n->bias, norm_eps);
}

/* A third of the columns, as (batch, tokens, heads, width of a head). */
static ls_tensor *third(ls_tape *tape, ls_tensor *all, int64_t number)
{
    ls_tensor *x =
        ls_narrow(tape, all, 2, number * WIDTH, (number + 1) * WIDTH);
    if (x == NULL)
        return NULL;
    return ls_reshape(
        tape, x, 4,
        (const int64_t[]){x->shape[0], x->shape[1], HEADS, WIDTH / HEADS});
}

static ls_tensor *attend(const block *b, ls_tape *tape, ls_tensor *x)
{
    const ls_attention_options options = {.rows_outside = true};
    ls_tensor *all = ls_linear_layer_forward(&b->in, tape, x);
    ls_tensor *o = ls_attention(tape, third(tape, all, 0), third(tape, all, 1),
                                third(tape, all, 2), &options);
    if (o == NULL)
        return NULL;
    o = ls_reshape(tape, o, 3,
                   (const int64_t[]){o->shape[0], o->shape[1], WIDTH});
    return ls_linear_layer_forward(&b->out, tape, o);
}

static ls_tensor *block_forward(const block *b, ls_tape *tape, ls_tensor *x)
{
    x = ls_add(tape, x, attend(b, tape, normalise(&b->ln1, tape, x)));
    ls_tensor *h =
        ls_linear_layer_forward(&b->up, tape, normalise(&b->ln2, tape, x));
    h = ls_linear_layer_forward(&b->down, tape, ls_gelu(tape, h));
    return ls_add(tape, x, h);
}

/* (batch, tokens, width) of the patches, after the class token. */
static ls_tensor *embed(const vit *net, ls_tape *tape, ls_tensor *images)
{
    ls_tensor *x = ls_conv2d_layer_forward(&net->patches, tape, images);
    if (x == NULL)
        return NULL;
    const int64_t n = x->shape[0];
    x = ls_reshape(tape, x, 3, (const int64_t[]){n, WIDTH, net->tokens - 1});
    ls_tensor *token =
        ls_expand(tape, net->class_token, 3, (const int64_t[]){n, 1, WIDTH});
    x = ls_concat(tape, (ls_tensor *[]){token, ls_transpose(tape, x, 1, 2)}, 2,
                  1);
    return ls_add(tape, x, net->positions);
}

static ls_tensor *logits(const void *parts, ls_tape *tape, ls_tensor *images)
{
    const vit *const net = parts;
    ls_tensor *x = embed(net, tape, images);
    for (int i = 0; i < BLOCKS; i++)
        x = block_forward(&net->blocks[i], tape, x);
    x = normalise(&net->ln, tape, ls_narrow(tape, x, 1, 0, 1));
    return ls_linear_layer_forward(&net->head, tape, ls_flatten(tape, x));
}

/* ---- making -------------------------------------------------------------- */

static int patch_of(const lsi_image_config *c)
{
    const int64_t side = c->height > c->width ? c->height : c->width;
    return side <= 32 ? 4 : side <= 64 ? 8 : 16;
}

static ls_status check(const lsi_image_config *c)
{
    const int patch = patch_of(c);
    if (c->height % patch == 0 && c->width % patch == 0)
        return LS_OK;
    return lsi_fail(LS_ERR_ARGUMENT,
                    "vit cannot cut images of %" PRId64 " x %" PRId64
                    " pixels into patches of %d x %d; height and width must be "
                    "multiples of the patch size",
                    c->height, c->width, patch, patch);
}

/* ---- parameters ---------------------------------------------------------- */

static const ls_init zeros = {LS_INIT_CONSTANT, 0, 0};
static const ls_init ones = {LS_INIT_CONSTANT, 1, 0};

static ls_init normal(double deviation)
{
    return (ls_init){LS_INIT_NORMAL, 0, deviation};
}

static ls_init uniform(double bound)
{
    return (ls_init){LS_INIT_UNIFORM, -bound, bound};
}

/* Xavier's. */
static ls_init xavier(int64_t in, int64_t out)
{
    return uniform(sqrt(6.0 / (double)(in + out)));
}

/* Where the parameters of a part go: "prefix" + "name". */
typedef struct site {
    lsi_net_builder *builder;
    const char *prefix;
} site;

static ls_tensor *add(site at, const char *part, int ndim, const int64_t *shape,
                      ls_init init)
{
    char name[NAME_BYTES];
    ls_tensor *out = NULL;
    snprintf(name, sizeof(name), "%s%s", at.prefix, part);
    LSI_BUILD(at.builder,
              ls_params_add(at.builder->params, name, ndim, shape, init, &out));
    return out;
}

static ls_tensor *add_vector(site at, const char *part, int64_t n, ls_init init)
{
    return add(at, part, 1, &n, init);
}

static ls_tensor *add_matrix(site at, const char *part, int64_t rows,
                             int64_t cols, ls_init init)
{
    return add(at, part, 2, (const int64_t[]){rows, cols}, init);
}

static norm add_norm(site at, const char *weight, const char *bias)
{
    norm out;
    out.weight = add_vector(at, weight, WIDTH, ones);
    out.bias = add_vector(at, bias, WIDTH, zeros);
    return out;
}

static void build_block(lsi_net_builder *b, block *made, int number)
{
    char prefix[PREFIX_BYTES];
    const site at = {b, prefix};
    const ls_init tiny = normal(1e-6);
    snprintf(prefix, sizeof(prefix), "encoder.layers.encoder_layer_%d.",
             number);
    made->ln1 = add_norm(at, "ln_1.weight", "ln_1.bias");
    made->in.weight = add_matrix(at, "self_attention.in_proj_weight", 3 * WIDTH,
                                 WIDTH, xavier(WIDTH, 3 * WIDTH));
    made->in.bias =
        add_vector(at, "self_attention.in_proj_bias", 3 * WIDTH, zeros);
    made->out.weight = add_matrix(at, "self_attention.out_proj.weight", WIDTH,
                                  WIDTH, uniform(1 / sqrt(WIDTH)));
    made->out.bias =
        add_vector(at, "self_attention.out_proj.bias", WIDTH, zeros);
    made->ln2 = add_norm(at, "ln_2.weight", "ln_2.bias");
    made->up.weight =
        add_matrix(at, "mlp.0.weight", INNER, WIDTH, xavier(WIDTH, INNER));
    made->up.bias = add_vector(at, "mlp.0.bias", INNER, tiny);
    made->down.weight =
        add_matrix(at, "mlp.3.weight", WIDTH, INNER, xavier(INNER, WIDTH));
    made->down.bias = add_vector(at, "mlp.3.bias", WIDTH, tiny);
}

static void build_patches(lsi_net_builder *b, vit *net,
                          const lsi_image_config *c)
{
    const int patch = patch_of(c);
    const int64_t filters[] = {WIDTH, c->channels, patch, patch};
    const int64_t token[] = {1, 1, WIDTH};
    const ls_init init =
        normal(1 / sqrt((double)(c->channels * patch * patch)));
    net->patches.options = (ls_conv2d_options){.stride = patch};
    const site whole = {b, ""};
    net->class_token = add(whole, "class_token", 3, token, zeros);
    net->patches.weight = add(whole, "conv_proj.weight", 4, filters, init);
    net->patches.bias = add_vector(whole, "conv_proj.bias", WIDTH, zeros);
}

static void build(void *parts, lsi_net_builder *b,
                  const lsi_image_net_setup *options)
{
    const lsi_image_config *const c = &options->config;
    const int patch = patch_of(c);
    const site encoder = {b, "encoder."}, head = {b, "heads.head."};
    vit *const net = parts;
    net->tokens = (c->height / patch) * (c->width / patch) + 1;
    const int64_t positions[] = {1, net->tokens, WIDTH};
    build_patches(b, net, c);
    net->positions = add(encoder, "pos_embedding", 3, positions, normal(0.02));
    for (int i = 0; i < BLOCKS; i++)
        build_block(b, &net->blocks[i], i);
    net->ln = add_norm(encoder, "ln.weight", "ln.bias");
    net->head.weight = add_matrix(head, "weight", c->classes, WIDTH, zeros);
    net->head.bias = add_vector(head, "bias", c->classes, zeros);
}

const lsi_image_kind lsi_image_kind_vit = {.name = "vit",
                                           .bytes = sizeof(vit),
                                           .check = check,
                                           .build = build,
                                           .logits = logits};

/*
 * Networks for images against PyTorch's in double precision
 * (make_image_net_vectors.py).
 */
#include "parity.h"

#include <stdio.h>
#include <string.h>

#include "model/nets/image_net.h"

enum { CLASSES = 7 };

static const double smoothing = 0.125;

/* ---- a network with weights that both sides draw ------------------------- */

typedef struct fixture {
    const char *name; /* of its lines */
    ls_group *group;
    ls_image_net *net;
    ls_params *params;
    ls_tape *tape;
    ls_batch batch;
} fixture;

typedef float (*scale_fn)(const char *name, int ndim);

static bool ends_with(const char *name, const char *end)
{
    const size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

static float resnet_scale(const char *name, int ndim)
{
    if (ndim > 1)
        return 0.125F;
    return ends_with(name, ".weight") || strcmp(name, "fc.bias") == 0 ? 1.0F
                                                                      : 0.5F;
}

static float vit_scale(const char *name, int ndim)
{
    if (ndim == 2)
        return 0.0625F;
    if (ndim == 3)
        return strcmp(name, "class_token") == 0 ? 1.0F : 0.5F;
    return ndim == 1 && ends_with(name, ".weight") ? 1.0F : 0.25F;
}

static fixture make(const char *name, lsi_image_config config, int64_t batch,
                    uint64_t seed, double smooth)
{
    fixture f = {.name = name, .batch = {.count = batch}};
    lsi_image_net_setup options = {
        .config = config, .norm = LSI_NORM_LOCAL, .label_smoothing = smooth};
    options.config.classes = CLASSES;
    const scale_fn scale =
        strcmp(config.name, "vit") == 0 ? vit_scale : resnet_scale;
    assert_ok(ls_group_open_threads(&f.group, 1));
    assert_ok(lsi_image_net_new(&f.net, f.group, &options));
    f.params = lsi_image_net_model(f.net)->params;
    for (size_t i = 0; i < ls_params_count(f.params); i++) {
        ls_tensor *const t = ls_params_get(f.params, i);
        fill(t, i + 1, scale(ls_params_name(f.params, i), ls_tensor_ndim(t)));
    }
    ls_params_changed(f.params);
    assert_ok(ls_tape_new(&f.tape));
    const int64_t shape[] = {batch, config.channels, config.height,
                             config.width};
    f.batch.fields[LS_FIELD_IMAGES] = values(seed, 4, shape, 1.0F);
    f.batch.fields[LS_FIELD_LABELS] = labels(seed + 1, batch, CLASSES);
    return f;
}

static void destroy(fixture *f)
{
    ls_tensor_free(&f->batch.fields[LS_FIELD_IMAGES]);
    ls_tensor_free(&f->batch.fields[LS_FIELD_LABELS]);
    ls_tape_free(&f->tape);
    ls_image_net_free(&f->net);
    ls_group_close(&f->group);
}

static void check_part(const fixture *f, const char *part,
                       const ls_tensor *tensor, double length)
{
    char name[192];
    snprintf(name, sizeof(name), "%s.%s", f->name, part);
    check(name, tensor, length);
}

static void check_grad(const fixture *f, const char *param, double length)
{
    char part[128];
    snprintf(part, sizeof(part), "d%s", param);
    for (size_t i = 0; i < ls_params_count(f->params); i++)
        if (strcmp(ls_params_name(f->params, i), param) == 0)
            check_part(f, part, ls_grad(ls_params_get(f->params, i)), length);
}

static void check_buffer(const fixture *f, const char *buffer, double length)
{
    for (size_t i = 0; i < ls_params_buffer_count(f->params); i++)
        if (strcmp(ls_params_buffer_name(f->params, i), buffer) == 0)
            check_part(f, buffer, ls_params_buffer(f->params, i), length);
}

/* Forward and backward; `length` is of all sums from an input to a logit. */
static void run(const fixture *f, double length)
{
    const lsi_model *const model = lsi_image_net_model(f->net);
    const lsi_forward out = model->forward(model->self, f->tape, &f->batch);
    assert_ok(ls_tape_status(f->tape));
    assert_ok(ls_backward(f->tape, out.loss, 1.0));
    check_part(f, "logits", out.logits, length);
    check_part(f, "loss", out.loss, length);
}

/* ---- ResNet-18 ----------------------------------------------------------- */

/*
 * Products of all convolutions in a row, with their normalisations, one of
 * which is a few thousand places in two sums; backward doubles it.
 */
static const double resnet_length =
    4 * 9 * (64 + 128 + 256 + 512) + 17 * 2 * 1024;

static void finish_resnet(const fixture *f)
{
    check_buffer(f, "bn1.running_mean", resnet_length);
    check_buffer(f, "layer4.1.bn2.running_var", resnet_length);
    ls_tape_reset(f->tape);
    ls_tape_set_training(f->tape, false);
    ls_tensor *logits =
        ls_image_net_forward(f->net, f->tape, f->batch.fields[LS_FIELD_IMAGES]);
    assert_ok(ls_tape_status(f->tape));
    check_part(f, "eval", logits, resnet_length);
}

static void resnet18(void **state)
{
    (void)state;
    static const char *const grads[] = {"conv1.weight",
                                        "bn1.weight",
                                        "layer1.1.conv2.weight",
                                        "layer2.0.downsample.0.weight",
                                        "layer3.0.bn1.bias",
                                        "layer4.1.conv2.weight",
                                        "fc.weight",
                                        "fc.bias"};
    const lsi_image_config config = {
        .name = "resnet18", .channels = 3, .height = 16, .width = 16};
    fixture f = make("resnet18", config, 4, read_seed("resnet18.seed"), 0);
    run(&f, resnet_length);
    for (size_t i = 0; i < TEST_COUNT(grads); i++)
        check_grad(&f, grads[i], 2 * resnet_length);
    finish_resnet(&f);
    destroy(&f);
}

/* With the first layers for larger images. */
static void resnet18_large(void **state)
{
    (void)state;
    const lsi_image_config config = {
        .name = "resnet18", .channels = 1, .height = 72, .width = 68};
    fixture f =
        make("resnet18_large", config, 2, read_seed("resnet18_large.seed"), 0);
    run(&f, resnet_length);
    check_grad(&f, "conv1.weight", 2 * resnet_length);
    check_grad(&f, "fc.weight", 2 * resnet_length);
    finish_resnet(&f);
    destroy(&f);
}

/* ---- a vision transformer ------------------------------------------------ */

/* Four products a block, attention and two norms. */
static const double vit_length = 6 * (4 * 192 + 768 + 2 * 64 + 4 * 192);

static void vit(void **state)
{
    (void)state;
    static const char *const grads[] = {
        "class_token",
        "conv_proj.weight",
        "conv_proj.bias",
        "encoder.pos_embedding",
        "encoder.layers.encoder_layer_0.ln_1.weight",
        "encoder.layers.encoder_layer_0.self_attention.in_proj_weight",
        "encoder.layers.encoder_layer_3.mlp.0.bias",
        "encoder.layers.encoder_layer_5.self_attention.out_proj.bias",
        "encoder.layers.encoder_layer_5.mlp.3.weight",
        "heads.head.weight"};
    const lsi_image_config config = {
        .name = "vit", .channels = 3, .height = 16, .width = 20};
    fixture f = make("vit", config, 3, 100, smoothing);
    run(&f, vit_length);
    for (size_t i = 0; i < TEST_COUNT(grads); i++)
        check_grad(&f, grads[i], 2 * vit_length);
    destroy(&f);
}

static void vit_large(void **state)
{
    (void)state;
    const lsi_image_config config = {
        .name = "vit", .channels = 1, .height = 96, .width = 80};
    fixture f = make("vit_large", config, 1, 100, smoothing);
    run(&f, vit_length);
    check_grad(&f, "conv_proj.weight", 2 * vit_length);
    destroy(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resnet18), cmocka_unit_test(resnet18_large),
        cmocka_unit_test(vit), cmocka_unit_test(vit_large),
        cmocka_unit_test(every_line_was_read)};
    return run_with_vectors(tests);
}

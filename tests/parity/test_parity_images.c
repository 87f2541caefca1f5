/* Images: our results against PyTorch's (make_image_vectors.py). */
#include <math.h>

#include "parity.h"

static void conv2d(const char *name, const int64_t *x, const int64_t *weight,
                   const ls_conv2d_options *options)
{
    operation op = begin(name);
    add_input(&op, 4, x, 1.0F);
    add_input(&op, 4, weight, 0.125F);
    add_input(&op, 1, weight, 0.125F);
    ls_tensor *y = ls_conv2d(op.tape, op.in[0], op.in[1], op.in[2], options);
    const int64_t *out = ls_tensor_shape(y);
    const double taps = (double)(weight[2] * weight[3]);
    const double pixels = (double)(out[0] * out[2] * out[3]);
    finish(&op, y,
           (const double[]){taps * (double)weight[1], taps * (double)weight[0],
                            pixels, pixels});
    end(&op);
}

static void convolutions(void **state)
{
    (void)state;
    conv2d("conv2d_grouped", (const int64_t[]){2, 32, 7, 6},
           (const int64_t[]){32, 16, 3, 3},
           &(ls_conv2d_options){.groups = 2, .padding = 1});
    conv2d("conv2d_depthwise", (const int64_t[]){2, 16, 9, 8},
           (const int64_t[]){16, 1, 3, 3},
           &(ls_conv2d_options){.groups = 16, .padding = 1, .stride = 2});
    conv2d("conv2d_dilated", (const int64_t[]){2, 5, 9, 8},
           (const int64_t[]){6, 5, 3, 3},
           &(ls_conv2d_options){.dilation = 2, .padding = 1});
}

/* Mean, variance, normalisation: three sums over 60 numbers in a row. */
static void batch_norm(void **state)
{
    (void)state;
    const int64_t channels = 16, image[] = {4, 16, 5, 3};
    operation op = begin("batch_norm");
    add_input(&op, 4, image, 1.0F);
    add_input(&op, 1, &channels, 1.0F);
    add_input(&op, 1, &channels, 1.0F);
    add_input(&op, 4, image, 1.0F);
    ls_tensor *mean = values(5, 1, &channels, 1.0F);
    ls_tensor *var = values(6, 1, &channels, 1.0F);
    float *v = tensor_data(var);
    for (int i = 0; i < channels; i++)
        v[i] = fabsf(v[i]);
    ls_batch_norm_args args = {.weight = op.in[1],
                               .bias = op.in[2],
                               .running_mean = mean,
                               .running_var = var,
                               .eps = 1e-5,
                               .momentum = 0.1,
                               .relu = true,
                               .residual = op.in[3]};
    ls_tensor *y = ls_batch_norm(op.tape, op.in[0], &args);
    finish(&op, y, (const double[]){120, 240, 180, 60, 1});
    check("batch_norm.mean", mean, 60);
    check("batch_norm.var", var, 120);
    ls_tape_reset(op.tape);
    ls_tape_set_training(op.tape, false);
    args.relu = false;
    args.residual = NULL;
    check("batch_norm.eval", ls_batch_norm(op.tape, op.in[0], &args), 120);
    ls_tensor_free(&mean);
    ls_tensor_free(&var);
    end(&op);
}

static void pooling(void **state)
{
    (void)state;
    operation op = begin("global_avg_pool2d");
    add_input(&op, 4, (const int64_t[]){3, 16, 5, 3}, 1.0F);
    finish(&op, ls_global_avg_pool2d(op.tape, op.in[0]),
           (const double[]){15, 1});
    end(&op);
    const ls_pool2d_options windows = {.stride = 2, .padding = 1};
    const int64_t image[] = {2, 16, 9, 7};
    op = begin("avg_pool2d");
    add_input(&op, 4, image, 1.0F);
    finish(&op, ls_avg_pool2d(op.tape, op.in[0], 3, &windows),
           (const double[]){9, 4});
    end(&op);
    op = begin("max_pool2d");
    add_input(&op, 4, image, 1.0F);
    finish(&op, ls_max_pool2d(op.tape, op.in[0], 3, &windows),
           (const double[]){1, 4});
    end(&op);
}

/* Groups of 4 channels of 20 pixels. */
static void group_norm(void **state)
{
    (void)state;
    const int64_t channels = 12;
    operation op = begin("group_norm");
    add_input(&op, 4, (const int64_t[]){3, 12, 5, 4}, 1.0F);
    add_input(&op, 1, &channels, 1.0F);
    add_input(&op, 1, &channels, 1.0F);
    finish(&op, ls_group_norm(op.tape, op.in[0], 3, op.in[1], op.in[2], 1e-5),
           (const double[]){160, 320, 240, 60});
    end(&op);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions), cmocka_unit_test(batch_norm),
        cmocka_unit_test(pooling), cmocka_unit_test(group_norm),
        cmocka_unit_test(every_line_was_read)};
    return run_with_vectors(tests);
}

/* The convolution layer, with square filters. */
#include "autograd/tape.h"
#include "base/error.h"
#include "nn/layer.h"

static ls_status check(lsi_layer_site site, int64_t in, int64_t out, int kernel,
                       const ls_conv2d_options *options)
{
    LS_TRY(lsi_layer_check_extent(site, "in", in));
    LS_TRY(lsi_layer_check_extent(site, "out", out));
    LS_TRY(lsi_layer_check_extent(site, "kernel", kernel));
    if (options->stride < 0 || options->padding < 0)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "layer %s: stride %d and padding %d must not be "
                        "negative",
                        site.name, options->stride, options->padding);
    return LS_OK;
}

ls_status ls_conv2d_layer_init(ls_conv2d_layer *layer, ls_params *params,
                               const char *name, int64_t in, int64_t out,
                               int kernel, ls_conv2d_options options)
{
    LS_NEED(layer);
    LS_NEED(params);
    LS_NEED(name);
    const lsi_layer_site site = {params, name};
    LS_TRY(check(site, in, out, kernel, &options));
    const int64_t shape[] = {out, in, kernel, kernel};
    const ls_init init = lsi_layer_uniform(in * kernel * kernel);
    ls_conv2d_layer made = {.options = options};
    LS_TRY(lsi_layer_param(site, "weight", 4, shape, init, &made.weight));
    LS_TRY(lsi_layer_param(site, "bias", 1, shape, init, &made.bias));
    *layer = made;
    return LS_OK;
}

ls_tensor *ls_conv2d_layer_forward(const ls_conv2d_layer *layer, ls_tape *tape,
                                   ls_tensor *x)
{
    if (!lsi_tape_has(tape, layer, __func__, "layer"))
        return NULL;
    return ls_conv2d(tape, x, layer->weight, layer->bias, layer->options);
}

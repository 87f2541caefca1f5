/* The convolution layer, with square filters. */
#include "base/error.h"
#include "model/autograd/tape.h"
#include "model/nn/layer.h"

static ls_status check(lsi_layer_site site, int64_t in, int64_t out, int kernel,
                       const ls_conv2d_options *options)
{
    LS_TRY(lsi_layer_check_extent(site, "in", in));
    LS_TRY(lsi_layer_check_extent(site, "out", out));
    LS_TRY(lsi_layer_check_extent(site, "kernel", kernel));
    if (options->stride < 0 || options->padding < 0 || options->dilation < 0 ||
        options->groups < 0)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "layer %s: stride %d, padding %d, dilation %d and "
                        "groups %d must not be negative",
                        site.name, options->stride, options->padding,
                        options->dilation, options->groups);
    const int64_t groups = options->groups > 0 ? options->groups : 1;
    if (in % groups != 0 || out % groups != 0)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "layer %s: %d groups must divide the %lld channels and "
                        "the %lld filters",
                        site.name, options->groups, (long long)in,
                        (long long)out);
    return LS_OK;
}

ls_status ls_conv2d_layer_init(ls_conv2d_layer *layer, ls_params *params,
                               const char *name, int64_t in, int64_t out,
                               int kernel, ls_conv2d_options options)
{
    LS_NEED(layer, params, name);
    const lsi_layer_site site = {params, name};
    LS_TRY(check(site, in, out, kernel, &options));
    const int64_t depth = options.groups > 0 ? in / options.groups : in;
    const int64_t shape[] = {out, depth, kernel, kernel};
    const ls_init init = lsi_layer_uniform(depth * kernel * kernel);
    ls_conv2d_layer made = {.options = options};
    LS_TRY(lsi_layer_param(site, "weight", 4, shape, init, &made.weight));
    if (!options.no_bias)
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

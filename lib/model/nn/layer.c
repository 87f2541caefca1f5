/* Layers: their parameters, by name, and their operations. */
#include "model/nn/layer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "base/structs.h"
#include "model/autograd/ops/ops.h"
#include "model/autograd/tape.h"

/* ---- parameters ---------------------------------------------------------- */

enum { NAME_BYTES = 256 };

static ls_status make_name(char name[NAME_BYTES], lsi_layer_site site,
                           const char *part)
{
    if (snprintf(name, NAME_BYTES, "%s.%s", site.name, part) >= NAME_BYTES)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "the name of layer %.40s... is longer than %d bytes",
                        site.name, NAME_BYTES - 1);
    return LS_OK;
}

ls_status lsi_layer_param(lsi_layer_site site, const char *part, int ndim,
                          const int64_t *shape, ls_init init, ls_tensor **out)
{
    char name[NAME_BYTES];
    LS_TRY(make_name(name, site, part));
    return ls_params_add(site.params, name, ndim, shape, init, out);
}

static ls_status add_buffer(lsi_layer_site site, const char *part, int ndim,
                            const int64_t *shape, ls_init init, ls_tensor **out)
{
    char name[NAME_BYTES];
    LS_TRY(make_name(name, site, part));
    return ls_params_add_buffer(site.params, name, ndim, shape, init, out);
}

/*
 * Uniform in +-1/sqrt(fan_in), which keeps the size of activations about the
 * same from layer to layer.
 */
static ls_init uniform(int64_t fan_in)
{
    const double bound = 1.0 / sqrt((double)fan_in);
    return (ls_init){LS_INIT_UNIFORM, -bound, bound};
}

static ls_status check_extent(lsi_layer_site site, const char *what,
                              int64_t extent)
{
    if (site.name == NULL || site.name[0] == '\0')
        return lsi_fail(LS_ERR_ARGUMENT, "the name of a layer is empty");
    if (extent < 1)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "layer %s: %s is %" PRId64 "; it must be at least 1",
                        site.name, what, extent);
    return LS_OK;
}

static const ls_init ones = {LS_INIT_CONSTANT, 1, 0};
static const ls_init zeros = {LS_INIT_CONSTANT, 0, 0};

/* The weight and the bias of a normalisation. */
static ls_status add_affine(lsi_layer_site site, int64_t features,
                            ls_tensor **weight, ls_tensor **bias)
{
    LS_TRY(lsi_layer_param(site, "weight", 1, &features, ones, weight));
    return lsi_layer_param(site, "bias", 1, &features, zeros, bias);
}

/* A flag that the layer does not have is an error. */
static ls_status check_flags(lsi_layer_site site, ls_layer_flags flags,
                             ls_layer_flags known)
{
    if ((flags & ~known) == 0)
        return LS_OK;
    return lsi_fail(LS_ERR_ARGUMENT,
                    "layer %s: this kind of layer does not support flags %#x",
                    site.name, flags & ~known);
}

/* ---- products ------------------------------------------------------------ */

ls_status ls_linear_layer_init(ls_linear_layer *layer, ls_params *params,
                               const char *name, int64_t in, int64_t out,
                               ls_layer_flags flags)
{
    LS_NEED(layer, params, name);
    const lsi_layer_site site = {params, name};
    LS_TRY(check_extent(site, "in", in));
    LS_TRY(check_extent(site, "out", out));
    LS_TRY(check_flags(site, flags, LS_LAYER_NO_BIAS));
    const int64_t shape[] = {out, in};
    const ls_init init = uniform(in);
    ls_linear_layer made = {0};
    LS_TRY(lsi_layer_param(site, "weight", 2, shape, init, &made.weight));
    if (!(flags & LS_LAYER_NO_BIAS))
        LS_TRY(lsi_layer_param(site, "bias", 1, shape, init, &made.bias));
    *layer = made;
    return LS_OK;
}

ls_tensor *ls_linear_layer_forward(const ls_linear_layer *layer, ls_tape *tape,
                                   ls_tensor *x)
{
    if (!lsi_tape_has(tape, layer, __func__, "layer"))
        return NULL;
    return ls_linear(tape, x, layer->weight, layer->bias);
}

static ls_status check_conv2d(lsi_layer_site site, int64_t in, int64_t out,
                              int kernel, const ls_conv2d_options *options)
{
    LS_TRY(check_extent(site, "in", in));
    LS_TRY(check_extent(site, "out", out));
    LS_TRY(check_extent(site, "kernel", kernel));
    if (options->stride < 0 || options->padding < 0 || options->dilation < 0 ||
        options->groups < 0)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "layer %s: stride %d, padding %d, dilation %d and "
                        "groups %d must not be negative",
                        site.name, options->stride, options->padding,
                        options->dilation, options->groups);
    if (in % options->groups != 0 || out % options->groups != 0)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "layer %s: groups is %d; it must divide the %lld input "
                        "channels and the %lld output channels",
                        site.name, options->groups, (long long)in,
                        (long long)out);
    return LS_OK;
}

/* A program's layer has room for as many options as the program knows. */
static ls_status keep_options(ls_conv2d_layer *layer,
                              const ls_conv2d_options *options,
                              const ls_conv2d_options *given)
{
    layer->options.struct_size = given != NULL ? given->struct_size : 0;
    return LSI_STRUCT_WRITE(&layer->options, options, ls_conv2d_options,
                            no_bias);
}

ls_status ls_conv2d_layer_init(ls_conv2d_layer *layer, ls_params *params,
                               const char *name, int64_t in, int64_t out,
                               int kernel, const ls_conv2d_options *given)
{
    ls_conv2d_options options;
    LS_NEED(layer, params, name);
    const lsi_layer_site site = {params, name};
    LS_TRY(lsi_conv2d_options(&options, given));
    LS_TRY(check_conv2d(site, in, out, kernel, &options));
    const int64_t depth = in / options.groups;
    const int64_t shape[] = {out, depth, kernel, kernel};
    const ls_init init = uniform(depth * kernel * kernel);
    ls_conv2d_layer made = {0};
    LS_TRY(lsi_layer_param(site, "weight", 4, shape, init, &made.weight));
    if (!options.no_bias)
        LS_TRY(lsi_layer_param(site, "bias", 1, shape, init, &made.bias));
    layer->weight = made.weight;
    layer->bias = made.bias;
    return keep_options(layer, &options, given);
}

ls_tensor *ls_conv2d_layer_forward(const ls_conv2d_layer *layer, ls_tape *tape,
                                   ls_tensor *x)
{
    if (!lsi_tape_has(tape, layer, __func__, "layer"))
        return NULL;
    return ls_conv2d(tape, x, layer->weight, layer->bias, &layer->options);
}

/* ---- normalisation ------------------------------------------------------- */

ls_status ls_layer_norm_layer_init(ls_layer_norm_layer *layer,
                                   ls_params *params, const char *name,
                                   int64_t features)
{
    LS_NEED(layer, params, name);
    const lsi_layer_site site = {params, name};
    ls_layer_norm_layer made = {.eps = 1e-5};
    LS_TRY(check_extent(site, "features", features));
    LS_TRY(add_affine(site, features, &made.weight, &made.bias));
    *layer = made;
    return LS_OK;
}

ls_tensor *ls_layer_norm_layer_forward(const ls_layer_norm_layer *layer,
                                       ls_tape *tape, ls_tensor *x)
{
    if (!lsi_tape_has(tape, layer, __func__, "layer"))
        return NULL;
    return ls_layer_norm(tape, x, layer->weight, layer->bias, layer->eps);
}

ls_status ls_group_norm_layer_init(ls_group_norm_layer *layer,
                                   ls_params *params, const char *name,
                                   int64_t channels, int groups,
                                   ls_layer_flags flags)
{
    LS_NEED(layer, params, name);
    const lsi_layer_site site = {params, name};
    ls_group_norm_layer made = {.groups = groups, .eps = 1e-5};
    LS_TRY(check_extent(site, "channels", channels));
    LS_TRY(check_flags(site, flags, LS_LAYER_NO_AFFINE));
    if (groups < 1 || channels % groups != 0)
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "layer %s: groups is %d; it must divide the %lld channels", name,
            groups, (long long)channels);
    if (!(flags & LS_LAYER_NO_AFFINE))
        LS_TRY(add_affine(site, channels, &made.weight, &made.bias));
    *layer = made;
    return LS_OK;
}

ls_tensor *ls_group_norm_layer_forward(const ls_group_norm_layer *layer,
                                       ls_tape *tape, ls_tensor *x)
{
    if (!lsi_tape_has(tape, layer, __func__, "layer"))
        return NULL;
    return ls_group_norm(tape, x, layer->groups, layer->weight, layer->bias,
                         layer->eps);
}

/* Its statistics are of this rank alone. */
ls_status ls_batch_norm_layer_init(ls_batch_norm_layer *layer,
                                   ls_params *params, const char *name,
                                   int64_t features, ls_layer_flags flags)
{
    LS_NEED(layer, params, name);
    const lsi_layer_site site = {params, name};
    LS_TRY(check_extent(site, "features", features));
    LS_TRY(check_flags(site, flags, LS_LAYER_NO_AFFINE));
    ls_batch_norm_args args = LS_BATCH_NORM_ARGS_INIT;
    if (!(flags & LS_LAYER_NO_AFFINE))
        LS_TRY(add_affine(site, features, &args.weight, &args.bias));
    LS_TRY(add_buffer(site, "running_mean", 1, &features, zeros,
                      &args.running_mean));
    LS_TRY(
        add_buffer(site, "running_var", 1, &features, ones, &args.running_var));
    layer->args.struct_size = 0; /* every program has room for these */
    return LSI_STRUCT_WRITE(&layer->args, &args, ls_batch_norm_args, residual);
}

ls_tensor *ls_batch_norm_layer_forward(const ls_batch_norm_layer *layer,
                                       ls_tape *tape, ls_tensor *x)
{
    if (!lsi_tape_has(tape, layer, __func__, "layer"))
        return NULL;
    return ls_batch_norm(tape, x, &layer->args);
}

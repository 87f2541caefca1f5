/* Normalisation that keeps no statistics: of rows, and of groups of channels.
 */
#include "base/error.h"
#include "model/autograd/tape.h"
#include "model/nn/layer.h"

static ls_status add_affine(lsi_layer_site site, int64_t features,
                            ls_tensor **weight, ls_tensor **bias)
{
    const ls_init one = {LS_INIT_CONSTANT, 1, 0};
    const ls_init zero = {LS_INIT_CONSTANT, 0, 0};
    LS_TRY(lsi_layer_param(site, "weight", 1, &features, one, weight));
    return lsi_layer_param(site, "bias", 1, &features, zero, bias);
}

ls_status ls_layer_norm_layer_init(ls_layer_norm_layer *layer,
                                   ls_params *params, const char *name,
                                   int64_t features)
{
    LS_NEED(layer, params, name);
    const lsi_layer_site site = {params, name};
    ls_layer_norm_layer made = {.eps = 1e-5};
    LS_TRY(lsi_layer_check_extent(site, "features", features));
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
                                   int64_t channels, int groups, bool affine)
{
    LS_NEED(layer, params, name);
    const lsi_layer_site site = {params, name};
    ls_group_norm_layer made = {.groups = groups, .eps = 1e-5};
    LS_TRY(lsi_layer_check_extent(site, "channels", channels));
    if (groups < 1 || channels % groups != 0)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "layer %s: %d groups must divide the %lld channels",
                        name, groups, (long long)channels);
    if (affine)
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

/* Batch normalisation with statistics of this rank alone. */
#include "base/error.h"
#include "model/autograd/tape.h"
#include "model/nn/layer.h"

static ls_status add_affine(ls_batch_norm_args *args, lsi_layer_site site,
                            const int64_t *shape)
{
    const ls_init one = {LS_INIT_CONSTANT, 1, 0};
    const ls_init zero = {LS_INIT_CONSTANT, 0, 0};
    LS_TRY(lsi_layer_param(site, "weight", 1, shape, one, &args->weight));
    return lsi_layer_param(site, "bias", 1, shape, zero, &args->bias);
}

static ls_status add_statistics(ls_batch_norm_args *args, lsi_layer_site site,
                                const int64_t *shape)
{
    const ls_init one = {LS_INIT_CONSTANT, 1, 0};
    const ls_init zero = {LS_INIT_CONSTANT, 0, 0};
    LS_TRY(lsi_layer_buffer(site, "running_mean", 1, shape, zero,
                            &args->running_mean));
    return lsi_layer_buffer(site, "running_var", 1, shape, one,
                            &args->running_var);
}

ls_status ls_batch_norm_layer_init(ls_batch_norm_layer *layer,
                                   ls_params *params, const char *name,
                                   int64_t features, bool affine)
{
    LS_NEED(layer, params, name);
    const lsi_layer_site site = {params, name};
    LS_TRY(lsi_layer_check_extent(site, "features", features));
    ls_batch_norm_args args = {.eps = 1e-5, .momentum = 0.1};
    if (affine)
        LS_TRY(add_affine(&args, site, &features));
    LS_TRY(add_statistics(&args, site, &features));
    layer->args = args;
    return LS_OK;
}

ls_tensor *ls_batch_norm_layer_forward(const ls_batch_norm_layer *layer,
                                       ls_tape *tape, ls_tensor *x)
{
    if (!lsi_tape_has(tape, layer, __func__, "layer"))
        return NULL;
    return ls_batch_norm(tape, x, &layer->args);
}

/* The fully connected layer. */
#include "base/error.h"
#include "model/autograd/tape.h"
#include "model/nn/layer.h"

ls_status ls_linear_layer_init(ls_linear_layer *layer, ls_params *params,
                               const char *name, int64_t in, int64_t out,
                               bool bias)
{
    LS_NEED(layer, params, name);
    const lsi_layer_site site = {params, name};
    LS_TRY(lsi_layer_check_extent(site, "in", in));
    LS_TRY(lsi_layer_check_extent(site, "out", out));
    const int64_t shape[] = {out, in};
    const ls_init init = lsi_layer_uniform(in);
    ls_linear_layer made = {0};
    LS_TRY(lsi_layer_param(site, "weight", 2, shape, init, &made.weight));
    if (bias)
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

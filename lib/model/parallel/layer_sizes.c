#include "model/parallel/layer_sizes.h"

#include <math.h>

#include "base/error.h"
#include "base/memory.h"
#include "model/parallel/layer_name.h"

enum { HALF = 2 }; /* bytes of a rounded weight */

static void add(lsi_layer_size *layer, ls_params *params, size_t i,
                lsi_layer_tables tables)
{
    const ls_tensor *const tensor = ls_params_get(params, i);
    const double elements = (double)ls_tensor_count(tensor);
    const bool table = i < tables.n;
    const bool product =
        ls_tensor_ndim(tensor) >= 2 && (!table || (i == 0 && tables.tied));
    layer->begin -= elements;
    layer->products += product ? elements : 0;
    layer->others += table || !product ? elements : 0;
    layer->lookups += table && !product ? elements : 0;
}

ls_status lsi_layer_sizes_of(ls_params *params, lsi_layer_tables tables,
                             lsi_layer_sizes *out)
{
    const size_t n = ls_params_count(params);
    double at = 0;
    *out = (lsi_layer_sizes){.n = 0};
    LS_TRY(lsi_alloc_zeroed(&out->of, n * sizeof(lsi_layer_size),
                            LS_MEMORY_OTHER,
                            "the sizes of the model's layers"));
    for (size_t i = 0; i < n; i++)
        if (ls_params_is_trainable(params, i))
            at += (double)ls_tensor_count(ls_params_get(params, i));
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || !lsi_is_same_layer(ls_params_name(params, i - 1),
                                         ls_params_name(params, i)))
            out->of[out->n++] = (lsi_layer_size){.begin = at, .end = at};
        if (ls_params_is_trainable(params, i))
            add(&out->of[out->n - 1], params, i, tables);
        at = out->of[out->n - 1].begin;
    }
    return LS_OK;
}

double lsi_layer_bytes(const lsi_layer_size *layer, bool half)
{
    return half ? HALF * layer->products + sizeof(float) * layer->others
                : sizeof(float) * (layer->end - layer->begin);
}

bool lsi_layer_is_tied(const lsi_layer_size *layer)
{
    return layer->products + layer->others > layer->end - layer->begin;
}

/* Bytes of a layer that the node does not keep. */
static double foreign(const lsi_layer_size *layer, const lsi_layer_window *w)
{
    const double all = layer->end - layer->begin;
    double missing = all;
    for (size_t i = 0; i < w->n_kept; i++)
        missing -= fmax(0, fmin(layer->end, w->kept[i][1]) -
                               fmax(layer->begin, w->kept[i][0]));
    return all > 0 ? missing / all * lsi_layer_bytes(layer, w->half) : 0;
}

double lsi_layer_window_bytes(const lsi_layer_sizes *layers,
                              const lsi_layer_window *w)
{
    double tied = 0, inside = 0, most = 0;
    for (size_t i = 0; i < layers->n; i++) {
        const lsi_layer_size *const layer = &layers->of[i];
        if (lsi_layer_is_tied(layer))
            tied += foreign(layer, w);
        else
            inside += foreign(layer, w);
        if (i > w->ahead && !lsi_layer_is_tied(layer - w->ahead - 1))
            inside -= foreign(layer - w->ahead - 1, w);
        most = fmax(most, inside);
    }
    return tied + most;
}

/* The layouts of files of Transformers; see transformer_layout.h. */
#include "model/nn/transformer_layout.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "model/autograd/params.h"
#include "model/tensor/tensor.h"

static ls_status alloc(const ls_transformer *m, lsi_weights *out)
{
    const size_t count = ls_params_count(m->params);
    *out = (lsi_weights){0};
    LS_TRY(lsi_alloc_zeroed(&out->items, count * sizeof(lsi_weight),
                            LS_MEMORY_OTHER, "the tensors of a transformer"));
    out->n = count;
    return LS_OK;
}

ls_status lsi_weights_list(const ls_transformer *model,
                           lsi_weights_layout layout, lsi_weights *out)
{
    const ls_params *const params = model->params;
    LS_TRY(alloc(model, out));
    for (size_t i = 0; i < out->n; i++) {
        lsi_weight *const w = &out->items[i];
        const char *const name = ls_params_name(params, i);
        w->tensor = ls_params_get(params, i);
        w->transposed = layout == LSI_WEIGHTS_TRANSPOSED &&
                        ls_tensor_ndim(w->tensor) == 2 &&
                        strncmp(name, "h.", 2) == 0;
        snprintf(w->name, sizeof w->name, "%s", name);
    }
    return LS_OK;
}

void lsi_weights_prefix(lsi_weights *weights, const char *prefix)
{
    for (size_t i = 0; i < weights->n; i++) {
        char *const name = weights->items[i].name;
        const lsi_weight old = weights->items[i];
        if (strcmp(name, LSI_GPT2_HEAD) != 0)
            snprintf(name, sizeof old.name, "%s%s", prefix, old.name);
    }
}

static ls_status view(const lsi_weight *weight, ls_tensor **out)
{
    if (weight->transposed)
        return ls_tensor_transpose(weight->tensor, 0, 1, out);
    *out = ls_tensor_retain(weight->tensor);
    return LS_OK;
}

ls_status lsi_weights_view(lsi_weights *weights)
{
    LS_TRY(lsi_alloc_zeroed(&weights->views,
                            weights->n * sizeof(ls_named_tensor),
                            LS_MEMORY_OTHER, "the tensors of a transformer"));
    for (size_t i = 0; i < weights->n; i++) {
        weights->views[i].name = weights->items[i].name;
        LS_TRY(view(&weights->items[i], &weights->views[i].tensor));
    }
    return LS_OK;
}

void lsi_weights_free(lsi_weights *weights)
{
    for (size_t i = 0; weights->views != NULL && i < weights->n; i++)
        ls_tensor_free(&weights->views[i].tensor);
    lsi_free(weights->views);
    lsi_free(weights->items);
}

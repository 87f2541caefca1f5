#include "plan/model.h"

#include <inttypes.h>

#include "base/error.h"
#include "base/memory.h"
#include "lockstep/autograd.h"
#include "model/nets/lm.h"

/* Limits of a language model; beyond them numbers of bytes would be inexact. */
enum { MOST_LAYERS = 1 << 14 };

/*
 * Parameters that are only looked up: embeddings. An embedding that is also the
 * head is a factor of products, too.
 */
static int64_t looked_up(const ls_transformer_config *c)
{
    if (c->kind == LS_TRANSFORMER_GPT2)
        return c->context * c->d_model +
               (c->untied_head ? c->vocabulary * c->d_model : 0);
    return c->vocabulary * c->d_model;
}

/* ---- the model ----------------------------------------------------------- */

static ls_status count(lsi_plan_model *model, ls_params *params,
                       const ls_transformer_config *config)
{
    const size_t n = ls_params_count(params);
    int64_t *tensors;
    LS_TRY(lsi_alloc(&tensors, n * sizeof(int64_t), LS_MEMORY_OTHER,
                     "the sizes of the model's tensors"));
    model->tensors = tensors;
    model->n_tensors = n;
    model->products = -looked_up(config);
    for (size_t i = 0; i < n; i++) {
        const ls_tensor *const tensor = ls_params_get(params, i);
        const int64_t elements = ls_tensor_count(tensor);
        tensors[n - 1 - i] = elements;
        model->parameters += elements;
        if (ls_tensor_ndim(tensor) == 2)
            model->products += elements;
    }
    return lsi_lm_layer_sizes(params, config, &model->layer_sizes);
}

static ls_status describe(lsi_plan_model *model, ls_params *params,
                          const ls_transformer_config *config)
{
    ls_transformer *transformer;
    LS_TRY(ls_transformer_new(&transformer, params, config));
    ls_transformer_free(&transformer);
    return count(model, params, config);
}

ls_status lsi_plan_model_open(lsi_plan_model *model,
                              const ls_transformer_config *config)
{
    ls_params *params;
    *model = (lsi_plan_model){
        .layers = config->layers,
        .d_model = config->d_model,
        .d_ff = config->d_ff,
        .heads = config->heads,
        .vocabulary = config->vocabulary,
        .gpt2 = config->kind == LS_TRANSFORMER_GPT2,
    };
    if (config->layers > MOST_LAYERS)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "cannot plan a model of %" PRId64
                        " layers: at most %d are possible",
                        config->layers, MOST_LAYERS);
    LS_TRY(ls_params_new(&params));
    const ls_status status = describe(model, params, config);
    ls_params_free(&params);
    return status;
}

void lsi_plan_model_close(lsi_plan_model *model)
{
    lsi_free(model->tensors);
    lsi_free(model->layer_sizes.of);
    model->tensors = NULL;
    model->layer_sizes = (lsi_layer_sizes){.n = 0};
}

size_t lsi_plan_bucket(const lsi_plan_run *run, size_t first, double *bytes)
{
    const lsi_plan_model *const m = run->model;
    const double limit = (double)run->bucket_bytes;
    double filled = 0;
    size_t end = first;
    while (end < m->n_tensors) {
        const double more = sizeof(float) * (double)m->tensors[end];
        if (end > first && filled + more > limit)
            break;
        filled += more;
        end++;
    }
    *bytes = filled;
    return end;
}

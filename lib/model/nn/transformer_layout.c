/* The layouts of files of Transformers; see transformer_layout.h. */
#include "model/nn/transformer_layout.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "model/autograd/params.h"
#include "model/tensor/tensor.h"

static void set(lsi_weight *weight, ls_tensor *tensor, const char *name)
{
    weight->tensor = tensor;
    snprintf(weight->name, sizeof weight->name, "%s", name);
}

static void list_own(const ls_transformer *m, lsi_weights_layout layout,
                     lsi_weights *out)
{
    for (size_t i = 0; i < out->n; i++) {
        lsi_weight *const w = &out->items[i];
        const size_t at = m->first_param + i;
        set(w, ls_params_get(m->params, at), ls_params_name(m->params, at));
        w->transposed = layout == LSI_WEIGHTS_TRANSPOSED &&
                        ls_tensor_ndim(w->tensor) == 2 &&
                        strncmp(w->name, "h.", 2) == 0;
    }
}

/* ---- as Llama ------------------------------------------------------------ */

enum { OUTSIDE = 3, QUERIES = 0, KEYS = 1, OF_BLOCK = 9 };

/* A parameter of ROPE or LLAMA by its purpose, the same of both. */
static ls_tensor *part(const ls_transformer *m, size_t i)
{
    ls_tensor *const outside[OUTSIDE] = {m->embedding, m->ln_final.weight,
                                         m->head};
    if (i < OUTSIDE)
        return outside[i];
    const lsi_transformer_block *const b = &m->blocks[(i - OUTSIDE) / OF_BLOCK];
    ls_tensor *const all[OF_BLOCK] = {
        b->q.weight,      b->k.weight,   b->v.weight,
        b->output.weight, b->w1.weight,  b->w2.weight,
        b->w3.weight,     b->ln1.weight, b->ln2.weight,
    };
    return all[(i - OUTSIDE) % OF_BLOCK];
}

static int64_t heads_of(const ls_transformer_config *c, size_t i)
{
    const size_t place = i < OUTSIDE ? OF_BLOCK : (i - OUTSIDE) % OF_BLOCK;
    return place == QUERIES ? c->heads
           : place == KEYS  ? lsi_transformer_kv_heads(c)
                            : 0;
}

static void pair(const ls_transformer *m, const ls_transformer *llama,
                 lsi_weights *out)
{
    for (size_t i = 0; i < out->n; i++) {
        set(&out->items[i], part(m, i), part(llama, i)->param->name);
        out->items[i].heads = heads_of(&m->config, i);
    }
}

/* The names are those of a Llama model of this shape. */
static ls_status list_as_llama(const ls_transformer *m, lsi_weights *out)
{
    ls_transformer llama = {.config = m->config};
    llama.config.kind = LS_TRANSFORMER_LLAMA;
    llama.config.untied_head = true;
    LS_TRY(ls_params_new(&llama.params));
    ls_status status = lsi_alloc_zeroed(
        &llama.blocks, (size_t)m->config.layers * sizeof(lsi_transformer_block),
        LS_MEMORY_OTHER, "the blocks of a transformer");
    if (status == LS_OK)
        status = lsi_transformer_add_params(&llama);
    if (status == LS_OK)
        pair(m, &llama, out);
    lsi_free(llama.blocks);
    ls_params_free(&llama.params);
    return status;
}

/* ---- lists --------------------------------------------------------------- */

ls_status lsi_weights_list(const ls_transformer *model,
                           lsi_weights_layout layout, lsi_weights *out)
{
    const size_t n = model->n_params;
    *out = (lsi_weights){0};
    LS_TRY(lsi_alloc_zeroed(&out->items, n * sizeof(lsi_weight),
                            LS_MEMORY_OTHER, "the tensors of a transformer"));
    out->n = n;
    if (layout == LSI_WEIGHTS_AS_LLAMA)
        return list_as_llama(model, out);
    list_own(model, layout, out);
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

/* (heads, pairs, 2, columns) as (heads, 2, pairs, columns). */
static ls_status part_pairs(const lsi_weight *weight, ls_tensor **out)
{
    const int64_t *const shape = ls_tensor_shape(weight->tensor);
    const int64_t pairs[] = {weight->heads, shape[0] / weight->heads / 2, 2,
                             shape[1]};
    ls_tensor *together = NULL;
    LS_TRY(ls_tensor_view(weight->tensor, 4, pairs, &together));
    const ls_status status = ls_tensor_transpose(together, 1, 2, out);
    ls_tensor_free(&together);
    return status;
}

static ls_status view(const lsi_weight *weight, ls_tensor **out)
{
    if (weight->heads > 0)
        return part_pairs(weight, out);
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

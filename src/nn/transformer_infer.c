/*
 * What a published GPT-2 file holds. It does not say so itself, but its names
 * and shapes do, all but the number of heads: those of every size that was
 * published have 64 elements.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/error.h"
#include "nn/transformer.h"
#include "tensor/safetensors.h"

enum { HEAD = 64 };

static const lsi_safetensors_entry *matrix(const lsi_safetensors_file *file,
                                           const char *name)
{
    const lsi_safetensors_entry *e = lsi_safetensors_find(file, name);
    return e != NULL && e->ndim == 2 ? e : NULL;
}

static int64_t count_layers(const lsi_safetensors_file *file)
{
    int64_t n = 0;
    char name[40];
    do
        snprintf(name, sizeof name, "h.%" PRId64 ".ln_1.weight", n++);
    while (lsi_safetensors_find(file, name) != NULL);
    return n - 1;
}

bool lsi_gpt2_is_published(const lsi_safetensors_file *file)
{
    const lsi_safetensors_entry *qkv = matrix(file, "h.0.attn.c_attn.weight");
    return qkv != NULL && qkv->shape[0] < qkv->shape[1];
}

ls_status lsi_gpt2_infer(const lsi_safetensors_file *file,
                         ls_transformer_config *out)
{
    const lsi_safetensors_entry *tokens = matrix(file, "wte.weight"),
                                *places = matrix(file, "wpe.weight"),
                                *inner = matrix(file, "h.0.mlp.c_fc.weight");
    if (tokens == NULL || places == NULL || inner == NULL)
        return lsi_fail(LS_ERR_FORMAT,
                        "'%s' has attention as GPT-2, but not the matrices "
                        "wte.weight, wpe.weight and h.0.mlp.c_fc.weight",
                        file->path);
    const int64_t d_model = tokens->shape[1];
    if (d_model % HEAD != 0)
        return lsi_fail(LS_ERR_FORMAT,
                        "'%s' does not say how many heads it has, and its "
                        "d_model, %" PRId64 ", is no multiple of %d, the size "
                        "of the heads of all published GPT-2 models",
                        file->path, d_model, HEAD);
    *out = (ls_transformer_config){.kind = LS_TRANSFORMER_GPT2,
                                   .vocabulary = tokens->shape[0],
                                   .context = places->shape[0],
                                   .d_model = d_model,
                                   .d_ff = inner->shape[1],
                                   .layers = count_layers(file),
                                   .heads = d_model / HEAD};
    return LS_OK;
}

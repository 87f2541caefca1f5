/*
 * The configuration of a file of published GPT-2 weights. Names and shapes give
 * most of it. The rest is in config.json in the same folder, as Hugging Face's
 * transformers write it; keys that it omits have the defaults of transformers.
 * Without config.json the values are those of all published sizes, whose widths
 * are known.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "model/nn/model_json.h"
#include "model/nn/transformer.h"
#include "model/tensor/safetensors.h"

/* Head width of every published size. */
enum { HEAD = 64 };
static const int64_t published_widths[] = {768, 1024, 1280, 1600};

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

/* ---- config.json --------------------------------------------------------- */

/* Required values of keys; one kind of model is supported. */
static const lsi_json_wanted supported[] = {
    {"model_type", "\"gpt2\"", NULL},
    {"activation_function", "\"gelu_new\"", "\"gelu_pytorch_tanh\""},
    {"scale_attn_weights", "true", NULL},
    {"scale_attn_by_inverse_layer_idx", "false", NULL},
    {"add_cross_attention", "false", NULL},
    {"pruned_heads", "{}", NULL},
    {"quantization_config", "null", NULL},
};

static const lsi_json_count counts[] = {
    {"n_layer", NULL, offsetof(lsi_gpt2_json, layers), true},
    {"n_head", NULL, offsetof(lsi_gpt2_json, heads), true},
    {"n_embd", NULL, offsetof(lsi_gpt2_json, d_model), true},
    {"n_inner", NULL, offsetof(lsi_gpt2_json, d_ff), false},
    {"n_positions", "n_ctx", offsetof(lsi_gpt2_json, context), true},
    {"vocab_size", NULL, offsetof(lsi_gpt2_json, vocabulary), true},
};

static ls_status read_json(const lsi_model_json *file, lsi_gpt2_json *out)
{
    LS_TRY(lsi_model_json_check(file, supported,
                                sizeof supported / sizeof supported[0]));
    LS_TRY(lsi_model_json_counts(file, counts, sizeof counts / sizeof counts[0],
                                 out));
    LS_TRY(lsi_model_json_eps(file, "layer_norm_epsilon", &out->norm_eps));
    return lsi_model_json_untied(file, &out->untied_head);
}

ls_status lsi_gpt2_read_json(const char *path, lsi_gpt2_json *out)
{
    lsi_model_json file;
    *out = (lsi_gpt2_json){0};
    LS_TRY(lsi_model_json_open(&file, path));
    out->found = file.json != NULL;
    const ls_status status = out->found ? read_json(&file, out) : LS_OK;
    lsi_model_json_close(&file);
    return status;
}

bool lsi_gpt2_write_json(const ls_transformer_config *c, json_t *json)
{
    const lsi_gpt2_json values = {.layers = c->layers,
                                  .heads = c->heads,
                                  .d_model = c->d_model,
                                  .d_ff = c->d_ff,
                                  .context = c->context,
                                  .vocabulary = c->vocabulary};
    json_t *const rest = json_pack(
        "{s:[s], s:f, s:b, s:f, s:f, s:f}", "architectures", "GPT2LMHeadModel",
        "layer_norm_epsilon", lsi_transformer_eps(c), "tie_word_embeddings",
        !c->untied_head, "attn_pdrop", 0.0, "embd_pdrop", 0.0, "resid_pdrop",
        0.0);
    const bool good =
        rest != NULL && json_object_update(json, rest) == 0 &&
        lsi_model_json_add_wanted(json, supported,
                                  sizeof supported / sizeof supported[0]) &&
        lsi_model_json_add_counts(json, counts,
                                  sizeof counts / sizeof counts[0], &values);
    json_decref(rest);
    return good;
}

/* ---- the head ------------------------------------------------------------ */

enum { PIECE = 1 << 14 };

static uint64_t bytes_of(const lsi_safetensors_entry *e)
{
    return e->end - e->begin;
}

static ls_status compare(const lsi_safetensors_file *file,
                         const lsi_safetensors_entry *a,
                         const lsi_safetensors_entry *b, bool *same)
{
    unsigned char x[PIECE], y[PIECE];
    *same = true;
    for (uint64_t at = 0; at < bytes_of(a) && *same; at += PIECE) {
        const uint64_t left = bytes_of(a) - at;
        const size_t n = left < PIECE ? (size_t)left : PIECE;
        LS_TRY(lsi_safetensors_read(file, a, at, x, n));
        LS_TRY(lsi_safetensors_read(file, b, at, y, n));
        *same = memcmp(x, y, n) == 0;
    }
    return LS_OK;
}

ls_status lsi_gpt2_has_own_head(const lsi_safetensors_file *file, bool *out)
{
    const lsi_safetensors_entry *tokens = matrix(file, "wte.weight");
    const lsi_safetensors_entry *head =
        lsi_safetensors_find(file, LSI_GPT2_HEAD);
    bool same = false;
    if (head != NULL && tokens != NULL && head->ndim == 2 &&
        head->shape[0] == tokens->shape[0] &&
        head->shape[1] == tokens->shape[1] &&
        strcmp(head->dtype, tokens->dtype) == 0)
        LS_TRY(compare(file, head, tokens, &same));
    *out = head != NULL && !same;
    return LS_OK;
}

/* ---- putting it together ------------------------------------------------- */

static ls_status read_shapes(const lsi_safetensors_file *file,
                             ls_transformer_config *out)
{
    const lsi_safetensors_entry *tokens = matrix(file, "wte.weight"),
                                *places = matrix(file, "wpe.weight"),
                                *inner = matrix(file, "h.0.mlp.c_fc.weight");
    if (tokens == NULL || places == NULL || inner == NULL)
        return lsi_fail(
            LS_ERR_FORMAT,
            "'%s' contains attention tensors of GPT-2, but one of the matrices "
            "wte.weight, wpe.weight and h.0.mlp.c_fc.weight is missing",
            file->path);
    *out = (ls_transformer_config){.kind = LS_TRANSFORMER_GPT2,
                                   .vocabulary = tokens->shape[0],
                                   .context = places->shape[0],
                                   .d_model = tokens->shape[1],
                                   .d_ff = inner->shape[1],
                                   .layers = count_layers(file)};
    return LS_OK;
}

static ls_status check_value(const lsi_safetensors_file *file, const char *key,
                             int64_t configured, int64_t has)
{
    if (configured == 0 || configured == has)
        return LS_OK;
    return lsi_fail(LS_ERR_FORMAT,
                    "config.json next to '%s' sets \"%s\": %" PRId64
                    ", but the shapes of the tensors give %" PRId64,
                    file->path, key, configured, has);
}

static ls_status apply_json(const lsi_safetensors_file *file,
                            const lsi_gpt2_json *json, ls_transformer_config *c)
{
    LS_TRY(check_value(file, "n_layer", json->layers, c->layers));
    LS_TRY(check_value(file, "n_embd", json->d_model, c->d_model));
    LS_TRY(check_value(file, "n_inner", json->d_ff, c->d_ff));
    LS_TRY(check_value(file, "n_positions", json->context, c->context));
    LS_TRY(check_value(file, "vocab_size", json->vocabulary, c->vocabulary));
    c->heads = json->heads;
    c->norm_eps = json->norm_eps;
    c->untied_head = json->untied_head;
    return LS_OK;
}

static ls_status guess_heads(const lsi_safetensors_file *file,
                             ls_transformer_config *c)
{
    const size_t n = sizeof published_widths / sizeof published_widths[0];
    for (size_t i = 0; i < n; i++)
        if (c->d_model == published_widths[i])
            c->heads = c->d_model / HEAD;
    if (c->heads > 0)
        return LS_OK;
    return lsi_fail(
        LS_ERR_FORMAT,
        "the number of heads of '%s' is unknown: the file does not contain "
        "this number, and no published GPT-2 model has d_model %" PRId64
        ". Put the model's config.json next to the file, or set --heads",
        file->path, c->d_model);
}

static ls_status check_head(const lsi_safetensors_file *file, bool own,
                            const ls_transformer_config *c)
{
    if (own == c->untied_head)
        return LS_OK;
    if (own)
        return lsi_fail(LS_ERR_FORMAT,
                        "'%s' has a separate output head (" LSI_GPT2_HEAD
                        " differs from wte.weight), but config.json next to it "
                        "does not set \"tie_word_embeddings\": false",
                        file->path);
    if (lsi_safetensors_find(file, LSI_GPT2_HEAD) != NULL)
        return LS_OK; /* untied, and equal */
    return lsi_fail(
        LS_ERR_FORMAT,
        "'%s' has no " LSI_GPT2_HEAD
        ", but config.json next to it sets \"tie_word_embeddings\": false",
        file->path);
}

ls_status lsi_gpt2_infer(const lsi_safetensors_file *file, int64_t heads,
                         ls_transformer_config *out)
{
    lsi_gpt2_json json;
    bool own;
    LS_TRY(read_shapes(file, out));
    LS_TRY(lsi_gpt2_read_json(file->path, &json));
    LS_TRY(lsi_gpt2_has_own_head(file, &own));
    if (json.found) {
        LS_TRY(apply_json(file, &json, out));
        return check_head(file, own, out);
    }
    out->untied_head = own;
    out->heads = heads;
    return heads > 0 ? LS_OK : guess_heads(file, out);
}

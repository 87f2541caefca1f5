/*
 * The configuration of published Llama weights: config.json in the same folder,
 * as Hugging Face's transformers write it, and a check that the tensors are of
 * such a model. Keys that it omits have the defaults of transformers.
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

static const char embedding[] = "model.embed_tokens.weight";
static const char head[] = "lm_head.weight";

bool lsi_llama_is_published(const lsi_safetensors_file *file)
{
    return lsi_safetensors_find(file, embedding) != NULL;
}

/* ---- config.json --------------------------------------------------------- */

static const lsi_json_wanted supported[] = {
    {"model_type", "\"llama\"", NULL},
    {"hidden_act", "\"silu\"", "\"swish\""},
    {"attention_bias", "false", NULL},
    {"mlp_bias", "false", NULL},
    {"quantization_config", "null", NULL},
};

#define PLACE(field) offsetof(ls_transformer_config, field)
static const lsi_json_count counts[] = {
    {"num_hidden_layers", NULL, PLACE(layers), true},
    {"num_attention_heads", NULL, PLACE(heads), true},
    {"num_key_value_heads", NULL, PLACE(kv_heads), false},
    {"head_dim", NULL, PLACE(d_head), false},
    {"hidden_size", NULL, PLACE(d_model), true},
    {"intermediate_size", NULL, PLACE(d_ff), true},
    {"max_position_embeddings", NULL, PLACE(context), true},
    {"vocab_size", NULL, PLACE(vocabulary), true},
};

static ls_status find_type(const lsi_model_json *file, const json_t *rope,
                           ls_rope_scaling_kind *out)
{
    const char *key = "rope_type";
    const json_t *value = lsi_model_json_get(rope, key);
    if (value == NULL)
        value = lsi_model_json_get(rope, "type"); /* as it was once called */
    const char *name = json_string_value(value);
    *out = LS_ROPE_SCALING_NONE;
    if (value == NULL || (name != NULL && strcmp(name, "default") == 0))
        return LS_OK;
    for (int k = LS_ROPE_SCALING_LINEAR; k < LS_ROPE_SCALING_COUNT; k++)
        if (name != NULL && strcmp(name, lsi_transformer_scaling_name(
                                             (ls_rope_scaling_kind)k)) == 0) {
            *out = (ls_rope_scaling_kind)k;
            return LS_OK;
        }
    return lsi_model_json_unsupported(file, key, value,
                                      "\"default\", \"linear\" or \"llama3\"");
}

static ls_status read_scaling(const lsi_model_json *file, const json_t *rope,
                              ls_rope_scaling *out)
{
    double original = 0.0;
    double part = 1.0;
    LS_TRY(find_type(file, rope, &out->kind));
    LS_TRY(lsi_model_json_real(file, rope, "partial_rotary_factor", &part));
    if (part != 1.0)
        return lsi_model_json_unsupported(
            file, "partial_rotary_factor",
            lsi_model_json_get(rope, "partial_rotary_factor"), "1");
    if (out->kind == LS_ROPE_SCALING_NONE)
        return LS_OK;
    LS_TRY(lsi_model_json_real(file, rope, "factor", &out->factor));
    if (out->kind == LS_ROPE_SCALING_LINEAR)
        return LS_OK;
    LS_TRY(lsi_model_json_real(file, rope, "low_freq_factor",
                               &out->low_freq_factor));
    LS_TRY(lsi_model_json_real(file, rope, "high_freq_factor",
                               &out->high_freq_factor));
    LS_TRY(lsi_model_json_real(file, rope, "original_max_position_embeddings",
                               &original));
    out->original_context = original < 1e15 ? (int64_t)original : 0;
    return LS_OK;
}

/*
 * Since transformers 5 all values are in rope_parameters. Before, all except
 * rope_theta were in rope_scaling.
 */
static ls_status read_rope(const lsi_model_json *file,
                           ls_transformer_config *out)
{
    const json_t *rope = lsi_model_json_get(file->json, "rope_parameters");
    const char *key = "rope_parameters";
    LS_TRY(
        lsi_model_json_real(file, file->json, "rope_theta", &out->rope_theta));
    if (rope == NULL)
        rope = lsi_model_json_get(file->json, key = "rope_scaling");
    if (rope == NULL)
        return LS_OK;
    if (!json_is_object(rope))
        return lsi_model_json_wrong(file, key, rope, "an object, or null");
    LS_TRY(lsi_model_json_real(file, rope, "rope_theta", &out->rope_theta));
    return read_scaling(file, rope, &out->rope_scaling);
}

static ls_status read_json(const lsi_model_json *file,
                           ls_transformer_config *out)
{
    LS_TRY(lsi_model_json_check(file, supported,
                                sizeof supported / sizeof supported[0]));
    LS_TRY(lsi_model_json_counts(file, counts, sizeof counts / sizeof counts[0],
                                 out));
    LS_TRY(lsi_model_json_eps(file, "rms_norm_eps", &out->norm_eps));
    LS_TRY(lsi_model_json_untied(file, &out->untied_head));
    return read_rope(file, out);
}

ls_status lsi_llama_read_json(const char *path, ls_transformer_config *out,
                              bool *found)
{
    lsi_model_json file;
    *out = (ls_transformer_config){.kind = LS_TRANSFORMER_LLAMA,
                                   .norm_eps = 1e-6,
                                   .rope_theta = 10000.0,
                                   .untied_head = true};
    LS_TRY(lsi_model_json_open(&file, path));
    *found = file.json != NULL;
    const ls_status status = *found ? read_json(&file, out) : LS_OK;
    lsi_model_json_close(&file);
    return status;
}

/* The scaling under its name in transformers, with its numbers. */
static json_t *rope_json(const ls_transformer_config *c)
{
    const ls_rope_scaling *const s = &c->rope_scaling;
    if (s->kind == LS_ROPE_SCALING_NONE)
        return json_pack("{s:s}", "rope_type", "default");
    if (s->kind == LS_ROPE_SCALING_LINEAR)
        return json_pack("{s:s, s:f}", "rope_type",
                         lsi_transformer_scaling_name(s->kind), "factor",
                         s->factor);
    return json_pack("{s:s, s:f, s:f, s:f, s:I}", "rope_type",
                     lsi_transformer_scaling_name(s->kind), "factor", s->factor,
                     "low_freq_factor", s->low_freq_factor, "high_freq_factor",
                     s->high_freq_factor, "original_max_position_embeddings",
                     (json_int_t)s->original_context);
}

/* Writes both forms: release 4 has rope_scaling, 5 has rope_parameters. */
static bool write_rope(const ls_transformer_config *c, json_t *json)
{
    json_t *const theta = json_real(lsi_transformer_theta(c));
    json_t *const rope = rope_json(c);
    const bool scaled = c->rope_scaling.kind != LS_ROPE_SCALING_NONE;
    const bool good = (!scaled || json_object_set_new(json, "rope_scaling",
                                                      json_copy(rope)) == 0) &&
                      json_object_set(rope, "rope_theta", theta) == 0 &&
                      json_object_set(json, "rope_theta", theta) == 0 &&
                      json_object_set(json, "rope_parameters", rope) == 0;
    json_decref(theta);
    json_decref(rope);
    return good;
}

bool lsi_llama_write_json(const ls_transformer_config *c, json_t *json)
{
    ls_transformer_config full = *c;
    const bool tied = c->kind == LS_TRANSFORMER_LLAMA && !c->untied_head;
    full.kv_heads = lsi_transformer_kv_heads(c);
    full.d_head = lsi_transformer_d_head(c);
    json_t *const rest = json_pack(
        "{s:[s], s:f, s:b}", "architectures", "LlamaForCausalLM",
        "rms_norm_eps", lsi_transformer_eps(c), "tie_word_embeddings", tied);
    const bool good =
        rest != NULL && json_object_update(json, rest) == 0 &&
        lsi_model_json_add_wanted(json, supported,
                                  sizeof supported / sizeof supported[0]) &&
        lsi_model_json_add_counts(json, counts,
                                  sizeof counts / sizeof counts[0], &full) &&
        write_rope(c, json);
    json_decref(rest);
    return good;
}

/* ---- the tensors --------------------------------------------------------- */

static int64_t count_layers(const lsi_safetensors_file *file)
{
    int64_t n = 0;
    char name[64];
    do
        snprintf(name, sizeof name,
                 "model.layers.%" PRId64 ".input_layernorm.weight", n++);
    while (lsi_safetensors_find(file, name) != NULL);
    return n - 1;
}

static ls_status check_tensors(const lsi_safetensors_file *file,
                               const ls_transformer_config *c)
{
    const int64_t layers = count_layers(file);
    const lsi_safetensors_entry *tokens = lsi_safetensors_find(file, embedding);
    if (tokens->ndim != 2 || tokens->shape[0] != c->vocabulary ||
        tokens->shape[1] != c->d_model)
        return lsi_fail(LS_ERR_FORMAT,
                        "config.json next to '%s' sets \"vocab_size\": %" PRId64
                        " and \"hidden_size\": %" PRId64
                        ", but the tensor '%s' does not have this shape",
                        file->path, c->vocabulary, c->d_model, embedding);
    if (layers > c->layers)
        return lsi_fail(
            LS_ERR_FORMAT,
            "config.json next to '%s' sets \"num_hidden_layers\": %" PRId64
            ", but the file contains tensors of %" PRId64 " layers",
            file->path, c->layers, layers);
    if (!c->untied_head || lsi_safetensors_find(file, head) != NULL)
        return LS_OK;
    return lsi_fail(LS_ERR_FORMAT,
                    "'%s' does not contain '%s', but config.json next to it "
                    "does not set \"tie_word_embeddings\": true",
                    file->path, head);
}

ls_status lsi_llama_infer(const lsi_safetensors_file *file,
                          ls_transformer_config *out)
{
    bool found;
    LS_TRY(lsi_llama_read_json(file->path, out, &found));
    if (!found)
        return lsi_fail(LS_ERR_FORMAT,
                        "'%s' contains tensors of Llama, but their shapes do "
                        "not give the number of heads and the context length. "
                        "Put the model's config.json next to the file",
                        file->path);
    return check_tensors(file, out);
}

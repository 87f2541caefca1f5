/*
 * config.json of GPT-2 models, as Hugging Face's transformers write it beside
 * the weights. What it leaves out has the value that they take then.
 */
#include <jansson.h>
#include <stddef.h>

#include "base/error.h"
#include "model/nn/model_json.h"
#include "model/nn/transformer.h"

/* What a model must be like, of which there is one kind. */
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

static ls_status read_rest(const lsi_model_json *file, lsi_gpt2_json *out)
{
    LS_TRY(lsi_model_json_eps(file, "layer_norm_epsilon", &out->norm_eps));
    return lsi_model_json_untied(file, &out->untied_head);
}

ls_status lsi_gpt2_read_json(const char *path, lsi_gpt2_json *out)
{
    lsi_model_json file;
    *out = (lsi_gpt2_json){0};
    LS_TRY(lsi_model_json_open(&file, path));
    if (file.json == NULL)
        return LS_OK;
    out->found = true;
    ls_status status = lsi_model_json_check(
        &file, supported, sizeof supported / sizeof supported[0]);
    if (status == LS_OK)
        status = lsi_model_json_counts(&file, counts,
                                       sizeof counts / sizeof counts[0], out);
    if (status == LS_OK)
        status = read_rest(&file, out);
    lsi_model_json_close(&file);
    return status;
}

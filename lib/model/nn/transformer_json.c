/* The config.json of a Transformer, as Hugging Face's transformers read it. */
#include <jansson.h>

#include "model/nn/transformer.h"

/* Sets to null the tokens that transformers would otherwise assume. */
static json_t *tokens(int64_t end)
{
    return end >= 0
               ? json_pack("{s:n, s:I, s:s}", "bos_token_id", "eos_token_id",
                           (json_int_t)end, "torch_dtype", "float32")
               : json_pack("{s:n, s:n, s:s}", "bos_token_id", "eos_token_id",
                           "torch_dtype", "float32");
}

json_t *lsi_transformer_to_json(const ls_transformer_config *config,
                                int64_t end)
{
    json_t *const json = tokens(end);
    const bool good =
        json != NULL && (config->kind == LS_TRANSFORMER_GPT2
                             ? lsi_gpt2_write_json(config, json)
                             : lsi_llama_write_json(config, json));
    if (good)
        return json;
    json_decref(json);
    return NULL;
}

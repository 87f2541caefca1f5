/* The folder of a language model; see lm.h. */
#include <jansson.h>

#include "base/error.h"
#include "input/text/tokenizer.h"
#include "model/checkpoint/folder.h"
#include "model/nets/lm.h"
#include "model/nn/model_json.h"
#include "model/nn/transformer.h"

/* Its reader takes a tokenizer.json as it is, whichever model it is for. */
static ls_status describe_tokenizer(const ls_tokenizer *tokenizer,
                                    int64_t context, json_t **out)
{
    size_t bytes;
    char *end = NULL;
    const int64_t id = ls_tokenizer_end(tokenizer);
    if (ls_tokenizer_is_special(tokenizer, id))
        LS_TRY(ls_tokenizer_decode(tokenizer, &id, 1, LS_TOKENIZER_SPECIAL,
                                   &end, &bytes));
    *out = json_pack("{s:s, s:I, s:b, s:s*}", "tokenizer_class",
                     "PreTrainedTokenizerFast", "model_max_length",
                     (json_int_t)context, "clean_up_tokenization_spaces", 0,
                     "eos_token", end);
    ls_free(end);
    return LS_OK;
}

static ls_status save_tokenizer(const ls_tokenizer *tokenizer, int64_t context,
                                const char *folder)
{
    json_t *json;
    LS_TRY(ls_tokenizer_save(tokenizer,
                             lsi_path_in(folder, LSI_LM_TOKENIZER_FILE).text));
    LS_TRY(describe_tokenizer(tokenizer, context, &json));
    return lsi_model_json_write(lsi_path_in(folder, LSI_MODEL_FILE).text,
                                LSI_LM_TOKENIZER_CONFIG, json);
}

static ls_status save_bytes(int64_t context, const char *folder)
{
    ls_tokenizer *bytes = NULL;
    LS_TRY(lsi_tokenizer_new_bytes(&bytes));
    const ls_status status = save_tokenizer(bytes, context, folder);
    ls_tokenizer_close(&bytes);
    return status;
}

ls_status lsi_lm_save_folder(const lsi_lm *lm, const char *folder,
                             const lsi_lm_tokens *tokens,
                             const char *const *metadata)
{
    const ls_tokenizer *const t = tokens->tokenizer;
    const int64_t context = ls_transformer_get_config(lm->transformer)->context;
    if (t != NULL)
        LS_TRY(save_tokenizer(t, context, folder));
    else if (tokens->bytes)
        LS_TRY(save_bytes(context, folder));
    return lsi_transformer_save_published(
        lm->transformer, lsi_path_in(folder, LSI_MODEL_FILE).text,
        t != NULL ? ls_tokenizer_end(t) : -1, metadata);
}

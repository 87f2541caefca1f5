/* A language model with its parameters. */
#include "model/nets/lm.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "comm/core/agree.h"
#include "input/text/tokenizer.h"
#include "lockstep/profile.h"
#include "model/autograd/params.h"
#include "model/nn/transformer.h"
#include "model/parallel/ddp_state.h"
#include "model/tensor/safetensors.h"
#include "model/tensor/tensor.h"

static ls_status describe(lsi_lm *lm, const ls_transformer_config *config)
{
    *lm = (lsi_lm){0};
    LS_TRY(ls_params_new(&lm->params));
    return ls_transformer_new(&lm->transformer, lm->params, config);
}

static ls_status
describe_sliced(lsi_lm *lm, const ls_transformer_config *config, int slices)
{
    LS_TRY(describe(lm, config));
    return ls_params_set_slices(lm->params, slices);
}

ls_status lsi_lm_new(lsi_lm *lm, ls_group *group,
                     const ls_transformer_config *config, uint64_t seed)
{
    return lsi_lm_new_sliced(lm, group, config, seed, 1);
}

ls_status lsi_lm_new_sliced(lsi_lm *lm, ls_group *group,
                            const ls_transformer_config *config, uint64_t seed,
                            int slices)
{
    ls_status status =
        lsi_agree_to_plan(group, describe_sliced(lm, config, slices));
    if (status == LS_OK)
        status = ls_params_allocate(lm->params, group, seed);
    if (status != LS_OK)
        lsi_lm_free(lm);
    return status;
}

static ls_status make_frozen(lsi_lm *lm, const ls_transformer_config *config,
                             uint64_t seed)
{
    LS_TRY(describe(lm, config));
    LS_TRY(lsi_params_freeze(lm->params));
    return ls_params_allocate(lm->params, NULL, seed);
}

ls_status lsi_lm_new_frozen(lsi_lm *lm, const ls_transformer_config *config,
                            uint64_t seed)
{
    const ls_status status = make_frozen(lm, config, seed);
    if (status != LS_OK)
        lsi_lm_free(lm);
    return status;
}

static ls_status open_frozen(lsi_lm *lm, const ls_transformer_config *config,
                             const char *path)
{
    LS_TRY(describe(lm, config));
    LS_TRY(lsi_params_freeze(lm->params));
    lsi_params_start_at_zero(lm->params);
    LS_TRY(lsi_transformer_keep_types(lm->transformer, path));
    LS_TRY(ls_params_allocate(lm->params, NULL, 0));
    return ls_transformer_load(lm->transformer, path);
}

ls_status lsi_lm_open(lsi_lm *lm, const ls_transformer_config *config,
                      const char *path)
{
    const ls_status status = open_frozen(lm, config, path);
    if (status != LS_OK)
        lsi_lm_free(lm);
    return status;
}

static ls_status describe_inference(lsi_lm *lm,
                                    const ls_transformer_config *config,
                                    const char *path)
{
    LS_TRY(describe(lm, config));
    lsi_params_set_inference(lm->params);
    return lsi_transformer_keep_types(lm->transformer, path);
}

ls_status lsi_lm_open_divided(lsi_lm *lm, ls_ddp **ddp, ls_group *group,
                              const ls_transformer_config *config,
                              const char *path, size_t prefetch_layers)
{
    LS_TRY(lsi_agree_to_plan(group, describe_inference(lm, config, path)));
    LS_TRY(ls_params_allocate(lm->params, group, 0));
    LS_TRY(lsi_ddp_new_inference(ddp, group, lm->params, prefetch_layers));
    return ls_transformer_load(lm->transformer, path);
}

/* Tokens come first, then positions of GPT2. */
ls_status lsi_lm_layer_sizes(ls_params *params,
                             const ls_transformer_config *config,
                             lsi_layer_sizes *out)
{
    const lsi_layer_tables tables = {
        .n = config->kind == LS_TRANSFORMER_GPT2 ? 2 : 1,
        .tied = config->kind != LS_TRANSFORMER_ROPE && !config->untied_head};
    return lsi_layer_sizes_of(params, tables, out);
}

ls_status lsi_lm_count(const ls_transformer_config *config, int64_t *parameters,
                       lsi_layer_sizes *layers_or_null)
{
    lsi_lm lm;
    ls_status status = describe(&lm, config);
    if (status == LS_OK)
        *parameters = ls_params_numel(lm.params);
    if (status == LS_OK && layers_or_null != NULL)
        status = lsi_lm_layer_sizes(lm.params, config, layers_or_null);
    lsi_lm_free(&lm);
    return status;
}

void lsi_lm_free(lsi_lm *lm)
{
    ls_transformer_free(&lm->transformer);
    ls_params_free(&lm->params);
}

/* ---- tokens -------------------------------------------------------------- */

const char *lsi_lm_tokens_name(bool bytes)
{
    return bytes ? "bytes" : "numbers";
}

static ls_status read_tokens(const lsi_safetensors_file *file,
                             int64_t vocabulary, bool *bytes)
{
    const char *stored = lsi_safetensors_text(file, LSI_LM_TOKENS_KEY);
    *bytes = stored != NULL ? strcmp(stored, lsi_lm_tokens_name(true)) == 0
                            : vocabulary == LSI_BYTE_TOKENS;
    if (stored == NULL || *bytes ||
        strcmp(stored, lsi_lm_tokens_name(false)) == 0)
        return LS_OK;
    return lsi_fail(LS_ERR_FORMAT,
                    "'%s' has the unknown token type '%s' in its metadata; "
                    "expected %s or %s",
                    file->path, stored, lsi_lm_tokens_name(true),
                    lsi_lm_tokens_name(false));
}

ls_status lsi_lm_has_bytes(const char *path, int64_t vocabulary, bool *out)
{
    lsi_safetensors_file file;
    LS_TRY(lsi_safetensors_open(&file, path));
    const ls_status status = read_tokens(&file, vocabulary, out);
    lsi_safetensors_close(&file);
    return status;
}

/* ---- training ------------------------------------------------------------ */

lsi_forward lsi_lm_forward(const lsi_lm *lm, ls_tape *tape, ls_tensor *tokens,
                           ls_tensor *targets)
{
    const int64_t vocabulary =
        ls_transformer_get_config(lm->transformer)->vocabulary;
    const int64_t rows = ls_tensor_count(targets);
    ls_tensor *logits = ls_transformer_forward(lm->transformer, tape, tokens);
    ls_range_push("loss");
    logits = ls_reshape(tape, logits, 2, (const int64_t[]){rows, vocabulary});
    ls_tensor *loss = ls_cross_entropy(tape, logits, targets, NULL);
    ls_range_pop();
    return (lsi_forward){.loss = loss,
                         .logits = logits,
                         .labels = targets,
                         .weight = (double)rows};
}

/* ---- the tokenizer ------------------------------------------------------- */

/* Rows of the embedding that stand for no token, to make it a round number. */
enum { MOST_PADDING = 1024 };

lsi_lm_digest lsi_lm_digest_of(const ls_tokenizer *tokenizer)
{
    lsi_lm_digest out;
    snprintf(out.text, sizeof out.text, "%016" PRIx64,
             ls_tokenizer_digest(tokenizer));
    return out;
}

static ls_status fail_tokenizer(const char *tokenizer_path, const char *path)
{
    return lsi_fail(LS_ERR_FORMAT,
                    "the tokenizer '%s' is not the one that '%s' was trained "
                    "with; use the tokenizer that the model was trained with",
                    tokenizer_path, path);
}

static ls_status check_digest(const char *path, const ls_tokenizer *tokenizer,
                              const char *tokenizer_path)
{
    lsi_safetensors_file file;
    LS_TRY(lsi_safetensors_open(&file, path));
    const char *stored = lsi_safetensors_text(&file, LSI_LM_TOKENIZER_KEY);
    const lsi_lm_digest digest = lsi_lm_digest_of(tokenizer);
    const ls_status status = stored != NULL && strcmp(stored, digest.text) != 0
                                 ? fail_tokenizer(tokenizer_path, path)
                                 : LS_OK;
    lsi_safetensors_close(&file);
    return status;
}

ls_status lsi_lm_check_tokenizer(const char *path, int64_t vocabulary,
                                 const ls_tokenizer *tokenizer,
                                 const char *tokenizer_path)
{
    const int64_t n = ls_tokenizer_vocabulary(tokenizer);
    if (n > vocabulary || n < vocabulary - MOST_PADDING)
        return lsi_fail(
            LS_ERR_FORMAT,
            "the tokenizer '%s' has %" PRId64
            " tokens, but the vocabulary of the model '%s' has %" PRId64
            "; use the tokenizer that the model was trained with",
            tokenizer_path, n, path, vocabulary);
    return check_digest(path, tokenizer, tokenizer_path);
}

/* ---- the tokenizer that a file keeps ------------------------------------- */

#define JSON_KEY "tokenizer.json"
#define END_KEY  "tokenizer_end"

/* Bytes: as text in JSON it is at most twice as long (safetensors.h). */
enum { MOST_KEPT = 40000000 };

void lsi_lm_keep(lsi_lm_kept *out, const ls_tokenizer *tokenizer)
{
    memset(out, 0, sizeof *out);
    if (tokenizer == NULL)
        return;
    out->digest = lsi_lm_digest_of(tokenizer);
    snprintf(out->end, sizeof out->end, "%" PRId64,
             ls_tokenizer_end(tokenizer));
    const char *const pairs[] = {LSI_LM_TOKENIZER_KEY,
                                 out->digest.text,
                                 JSON_KEY,
                                 (const char *)tokenizer->source.at,
                                 END_KEY,
                                 out->end};
    const bool fits = tokenizer->source.n <= MOST_KEPT;
    memcpy(out->pairs, pairs, fits ? sizeof pairs : 2 * sizeof pairs[0]);
}

static ls_status open_kept(const lsi_safetensors_file *file, const char *json,
                           ls_tokenizer **out)
{
    const char *const end = lsi_safetensors_text(file, END_KEY);
    const char *const stored = lsi_safetensors_text(file, LSI_LM_TOKENIZER_KEY);
    char name[PATH_MAX + 32];
    snprintf(name, sizeof name, "the tokenizer in %s", file->path);
    LS_TRY(lsi_tokenizer_of_text(out, name, json,
                                 end != NULL ? strtoll(end, NULL, 10) : -1));
    const lsi_lm_digest digest = lsi_lm_digest_of(*out);
    if (stored != NULL && strcmp(stored, digest.text) == 0)
        return LS_OK;
    ls_tokenizer_close(out);
    return lsi_fail(LS_ERR_FORMAT,
                    "the tokenizer stored in '%s' is damaged: its checksum is "
                    "%s, but the file's metadata '" LSI_LM_TOKENIZER_KEY
                    "' has %s. Use --tokenizer PATH to give the tokenizer that "
                    "the model was trained with",
                    file->path, digest.text,
                    stored != NULL ? stored : "no value");
}

ls_status lsi_lm_kept_tokenizer(const char *path, ls_tokenizer **out)
{
    lsi_safetensors_file file;
    ls_tokenizer *made = NULL;
    LS_TRY(lsi_safetensors_open(&file, path));
    const char *const json = lsi_safetensors_text(&file, JSON_KEY);
    const ls_status status =
        json != NULL ? open_kept(&file, json, &made) : LS_OK;
    lsi_safetensors_close(&file);
    if (status == LS_OK)
        *out = made;
    return status;
}

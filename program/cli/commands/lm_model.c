/* A trained language model that a command uses; see lm_model.h. */
#include "cli/commands/lm_model.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/printable.h"
#include "comm/api/outcome.h"
#include "model/checkpoint/find.h"
#include "model/nn/transformer.h"

static ls_status read_config(const lsi_lm_model_flags *f, const char *path,
                             ls_transformer_config *out)
{
    if (f->size == NULL)
        return lsi_transformer_read_config(path, f->heads, out);
    *out = (ls_transformer_config)LS_TRANSFORMER_CONFIG_INIT;
    LS_TRY(ls_transformer_size(f->size, out));
    out->heads = f->heads > 0 ? f->heads : out->heads;
    return LS_OK;
}

/* ---- the tokenizer ------------------------------------------------------- */

static bool is_beside(const char *weights, const char *name, lsi_path *out)
{
    const char *slash = strrchr(weights, '/');
    const int n = slash != NULL ? (int)(slash + 1 - weights) : 0;
    const int all =
        snprintf(out->text, sizeof out->text, "%.*s%s", n, weights, name);
    return all < (int)sizeof out->text && access(out->text, F_OK) == 0;
}

/* NULL: there is none. */
static const char *tokenizer_of(const lsi_lm_model_flags *f,
                                const char *weights, bool bytes, lsi_path *path)
{
    if (f->tokenizer != NULL)
        return f->tokenizer;
    if (!bytes && (is_beside(weights, "tokenizer.json", path) ||
                   is_beside(weights, "vocab.json", path)))
        return path->text;
    return NULL;
}

/*
 * Opens the first tokenizer of these: of the flag, in the weights' file, or
 * next to that file.
 */
static ls_status open_tokenizer(const lsi_lm_model_flags *f,
                                const char *weights, lsi_lm_model *m)
{
    lsi_path beside;
    if (f->tokenizer == NULL)
        LS_TRY(lsi_lm_kept_tokenizer(weights, &m->tokenizer));
    if (m->tokenizer != NULL) {
        m->bytes = false;
        return lsi_lm_check_tokenizer(weights, m->vocabulary, m->tokenizer,
                                      weights);
    }
    const char *path = tokenizer_of(f, weights, m->bytes, &beside);
    if (path == NULL)
        return LS_OK;
    LS_TRY(ls_tokenizer_open(&m->tokenizer, path));
    m->bytes = false;
    return lsi_lm_check_tokenizer(weights, m->vocabulary, m->tokenizer, path);
}

/* ---- the model ----------------------------------------------------------- */

/* Everything but the weights. */
static ls_status find(const lsi_lm_model_flags *flags, lsi_path *path,
                      ls_transformer_config *config, lsi_lm_model *out)
{
    LS_TRY(lsi_checkpoint_weights(flags->model, path));
    LS_TRY(read_config(flags, path->text, config));
    LS_TRY(lsi_lm_has_bytes(path->text, config->vocabulary, &out->bytes));
    out->vocabulary = config->vocabulary;
    out->context = config->context;
    return open_tokenizer(flags, path->text, out);
}

static ls_status load(const lsi_lm_model_flags *flags, ls_group *group,
                      const ls_transformer_config *config, const char *path,
                      lsi_lm_model *out)
{
    if (strcmp(flags->strategy, "flat") == 0 || ls_group_size(group) == 1)
        return lsi_lm_open(&out->lm, config, path);
    return lsi_lm_open_divided(&out->lm, &out->ddp, group, config, path,
                               lsi_cli_prefetch_layers(flags->prefetch_layers));
}

ls_status lsi_cli_lm_open(const lsi_lm_model_flags *flags, ls_group *group,
                          lsi_lm_model *out, bool *agreed)
{
    ls_transformer_config config = LS_TRANSFORMER_CONFIG_INIT;
    lsi_path path;
    *out = (lsi_lm_model){0};
    LS_TRY(lsi_share_outcome(group, find(flags, &path, &config, out), agreed));
    LS_TRY(lsi_share_outcome(group, load(flags, group, &config, path.text, out),
                             agreed));
    if (ls_group_rank(group) == 0 && strcmp(path.text, flags->model) != 0)
        fprintf(stderr, "loaded the weights '%s'\n",
                lsi_printable_of(path.text).text);
    return LS_OK;
}

void lsi_cli_lm_close(lsi_lm_model *m)
{
    ls_ddp_free(&m->ddp);
    lsi_lm_free(&m->lm);
    ls_tokenizer_close(&m->tokenizer);
}

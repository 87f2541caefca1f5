#include "cli/frame/lm_flags.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "cli/frame/list.h"
#include "model/nets/lm.h"
#include "model/nn/transformer_lists.h"

const char lsi_lm_size_choices[] =
#define X(name, KIND, d_model, d_ff, layers, heads, vocabulary) "|" name
    LSI_TRANSFORMER_SIZE_LIST(X)
#undef X
    ;

static ls_status read_size(void *opaque, const char *word)
{
    lsi_lm_sizes *const sizes = opaque;
    ls_transformer_config unused = LS_TRANSFORMER_CONFIG_INIT;
    LS_TRY(ls_transformer_size(word, &unused));
    if (sizes->n == LSI_LM_SIZES_MOST)
        return lsi_fail(LS_ERR_ARGUMENT, "--size lists more than %d sizes",
                        LSI_LM_SIZES_MOST);
    snprintf(sizes->names[sizes->n++], LSI_LM_SIZE_BYTES, "%s", word);
    return LS_OK;
}

ls_status lsi_cli_lm_sizes(const char *text, lsi_lm_sizes *out)
{
    out->n = 0;
    return lsi_each_word("--size", text, read_size, out);
}

static void replace(int64_t *value, int64_t flag)
{
    if (flag > 0)
        *value = flag;
}

static ls_attention_method attention_of(const lsi_lm_shape_flags *flags)
{
    return strcmp(flags->attention, "naive") == 0 ? LS_ATTENTION_NAIVE
                                                  : LS_ATTENTION_FLASH;
}

/* By the names of the flags; the library says it by those of its members. */
static ls_status check_heads(const ls_transformer_config *c)
{
    if (c->d_model % c->heads != 0)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "--heads %" PRId64 " does not divide --d-model %" PRId64
                        "; choose a divisor",
                        c->heads, c->d_model);
    if (c->kind == LS_TRANSFORMER_GPT2 || c->d_model / c->heads % 2 == 0)
        return LS_OK;
    return lsi_fail(LS_ERR_ARGUMENT,
                    "--d-model %" PRId64 " / --heads %" PRId64
                    " is a head size of %" PRId64
                    ", but rotary position embeddings need an even head size",
                    c->d_model, c->heads, c->d_model / c->heads);
}

ls_status lsi_cli_lm_shape(const lsi_lm_shape_flags *flags,
                           ls_transformer_config *out)
{
    *out = (ls_transformer_config)LS_TRANSFORMER_CONFIG_INIT;
    LS_TRY(ls_transformer_size(flags->size, out));
    replace(&out->layers, flags->layers);
    replace(&out->d_model, flags->d_model);
    replace(&out->heads, flags->heads);
    replace(&out->d_ff, flags->d_ff);
    replace(&out->vocabulary, flags->vocabulary);
    out->context = flags->context > 0 ? flags->context : LSI_LM_USUAL_CONTEXT;
    out->norm_eps = flags->norm_eps;
    out->untied_head = flags->untied_head;
    out->rope_halves = strcmp(flags->rope, "halves") == 0;
    out->attention = attention_of(flags);
    return check_heads(out);
}

const char *lsi_cli_lm_changes(const lsi_lm_shape_flags *f)
{
    return f->layers > 0       ? "layers"
           : f->d_model > 0    ? "d-model"
           : f->heads > 0      ? "heads"
           : f->d_ff > 0       ? "d-ff"
           : f->vocabulary > 0 ? "vocab-size"
           : f->untied_head    ? "untied-head"
                               : NULL;
}

ls_status lsi_cli_lm_shape_of(const lsi_lm_shape_flags *flags,
                              const char *weights, ls_transformer_config *out,
                              bool *bytes)
{
    const char *const twice = lsi_cli_lm_changes(flags);
    if (twice != NULL)
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "--%s and --weights exclude each other: the shape comes from '%s'",
            twice, weights);
    *out = (ls_transformer_config)LS_TRANSFORMER_CONFIG_INIT;
    LS_TRY(ls_transformer_read_config(weights, out));
    LS_TRY(lsi_lm_has_bytes(weights, out->vocabulary, bytes));
    out->attention = attention_of(flags);
    if (flags->context > out->context)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "--context %" PRId64 " is more than the %" PRId64
                        " %spositions of '%s'; give a smaller context",
                        flags->context, out->context,
                        out->kind == LS_TRANSFORMER_GPT2 ? "learned " : "",
                        weights);
    if (out->kind == LS_TRANSFORMER_GPT2)
        return LS_OK; /* sequences are shorter, and the model keeps all */
    if (flags->context > 0)
        out->context = flags->context;
    else if (out->context > LSI_LM_MOST_CONTEXT)
        out->context = LSI_LM_MOST_CONTEXT;
    return LS_OK;
}

static bool has_shape(const ls_transformer_config *a,
                      const ls_transformer_config *b)
{
    return a->layers == b->layers && a->d_model == b->d_model &&
           a->heads == b->heads && a->d_ff == b->d_ff &&
           a->vocabulary == b->vocabulary && a->untied_head == b->untied_head;
}

void lsi_cli_lm_name(const char *size, const ls_transformer_config *config,
                     char out[LSI_LM_NAME_BYTES])
{
    ls_transformer_config of_size = LS_TRANSFORMER_CONFIG_INIT;
    if (ls_transformer_size(size, &of_size) == LS_OK &&
        has_shape(config, &of_size))
        snprintf(out, LSI_LM_NAME_BYTES, "%s", size);
    else
        snprintf(out, LSI_LM_NAME_BYTES, "%" PRId64 "x%" PRId64, config->layers,
                 config->d_model);
}

void lsi_cli_lm_record_shape(const ls_transformer_config *config,
                             lsi_table *table)
{
    lsi_table_int(table, "layers", config->layers);
    lsi_table_int(table, "d_model", config->d_model);
    lsi_table_int(table, "heads", config->heads);
    lsi_table_int(table, "d_ff", config->d_ff);
    lsi_table_int(table, "vocab_size", config->vocabulary);
}

ls_token_format lsi_cli_token_format(const char *name)
{
    static const char *const names[] = {
        [LS_TOKENS_BY_NAME] = "by-name", [LS_TOKENS_TEXT] = "text",
        [LS_TOKENS_LLMC] = "llmc",       [LS_TOKENS_U16] = "u16",
        [LS_TOKENS_U32] = "u32",         [LS_TOKENS_BYTES] = "bytes",
        [LS_TOKENS_NPY] = "npy"};
    int format = LS_TOKENS_BY_NAME;
    while (strcmp(names[format], name) != 0)
        format++;
    return (ls_token_format)format;
}

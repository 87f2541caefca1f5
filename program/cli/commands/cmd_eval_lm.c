/*
 * lockstep eval lm: how well a language model predicts texts.
 */
#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "cli/commands/eval_columns.h"
#include "cli/commands/lm_model.h"
#include "cli/frame/bits_flag.h"
#include "cli/frame/lm_flags.h"
#include "cli/frame/ranks.h"
#include "comm/api/outcome.h"
#include "report/result.h"
#include "report/table.h"
#include "train/jobs/lm_eval.h"

enum { USUAL_CONTEXT = 2048 };

typedef struct args {
    lsi_rank_flags ranks;
    lsi_lm_model_flags model;
    const char *data, *tokens, *json;
    int64_t context, stride;
    bool deterministic, markdown;
    const char *bits;
} args;

#define ROW(...) LSI_OPTION(args, __VA_ARGS__)
static const lsi_option options[] = {
    LSI_RANK_ROWS(ranks, "1"),
    LSI_DETERMINISTIC_ROW(deterministic),
    LSI_BITS_ROW(bits),
    LSI_LM_MODEL_ROWS(model),
    ROW(data, STRING, "data", 0, "PATH", NULL,
        "text or tokens: a file, a folder, or a pattern such as "
        "'shards/*.bin'; more paths may follow the flags"),
    LSI_LM_TOKENS_ROW(tokens),
    ROW(context, INT, "context", 'c', "N", NULL,
        "tokens per window (default: the model's context, at most 2048)",
        .min = 1, .max = 1 << 20),
    ROW(stride, INT, "stride", 0, "N", NULL,
        "tokens from the start of one window to the start of the next "
        "(default: the context); a smaller stride gives each token more "
        "context, but takes longer",
        .min = 1, .max = 1 << 20),
    LSI_JSON_ROW(json),
    LSI_MARKDOWN_ROW(markdown),
};

static const lsi_column columns[] = {
    LSI_EVAL_SUBJECT,
    LSI_EVAL_RANKS,
    LSI_COLUMN(INT, "context", "Context"),
    LSI_COLUMN(INT, "stride", "Stride"),
    LSI_COLUMN(INT, "tokens", "Tokens"),
    LSI_EVAL_LOSS,
    LSI_COLUMN(REAL, "perplexity", "Perplexity", .decimals = 3),
    LSI_EVAL_SPEED("tokens", "Tokens"),
};

typedef struct session {
    const args *args;
    const lsi_invocation *call;
    ls_group *group;
    lsi_lm_model model;
    lsi_table *table;
    lsi_lm_eval_options options;
    bool agreed; /* all ranks have the same error */
} session;

static ls_status open_text(const session *s, const char *path,
                           lsi_lm_text *text)
{
    const lsi_lm_reader reader = {.tokenizer = s->model.tokenizer,
                                  .bytes = s->model.bytes,
                                  .vocabulary = s->model.vocabulary};
    return lsi_lm_text_open(text, path, lsi_cli_token_format(s->args->tokens),
                            &reader);
}

static void add_row(const session *s, const char *path,
                    const lsi_lm_eval_result *result, double seconds)
{
    lsi_table_row(s->table);
    lsi_table_text(s->table, "model", s->args->model.model);
    lsi_table_text(s->table, "data", path);
    lsi_table_int(s->table, "ranks", ls_group_size(s->group));
    lsi_table_int(s->table, "context", s->options.context);
    lsi_table_int(s->table, "stride", s->options.stride);
    lsi_table_int(s->table, "tokens", result->tokens);
    lsi_table_real(s->table, "loss", result->loss);
    lsi_table_real(s->table, "perplexity", exp(result->loss));
    lsi_table_real(s->table, "seconds", seconds);
    lsi_table_real(s->table, "tokens_per_second",
                   (double)result->tokens / seconds);
}

static ls_status evaluate(session *s, const char *path)
{
    lsi_lm_text text = {0};
    lsi_lm_eval_result result;
    ls_status status =
        lsi_share_outcome(s->group, open_text(s, path, &text), &s->agreed);
    const double begun = lsi_clock_seconds();
    if (status == LS_OK)
        status = lsi_evaluate_lm(s->group, &s->model.lm, &text, &s->options,
                                 &result, &s->agreed);
    if (status == LS_OK)
        add_row(s, path, &result, lsi_clock_seconds() - begun);
    lsi_lm_text_close(&text);
    return status;
}

static ls_status begin(session *s)
{
    if (ls_group_rank(s->group) == 0)
        LS_TRY(lsi_result_check(s->args->json));
    return LSI_TABLE_NEW(&s->table, columns);
}

static ls_status choose_windows(session *s)
{
    const args *a = s->args;
    const int64_t context = s->model.context;
    const int64_t usual = context < USUAL_CONTEXT ? context : USUAL_CONTEXT;
    s->options.context = a->context > 0 ? a->context : usual;
    s->options.stride = a->stride > 0 ? a->stride : s->options.context;
    if (s->options.context > context)
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "--context %lld is longer than the model's context of %lld tokens",
            (long long)s->options.context, (long long)context);
    return s->options.stride <= s->options.context
               ? LS_OK
               : lsi_fail(LS_ERR_ARGUMENT,
                          "--stride %lld is more than the context of %lld "
                          "tokens, so tokens between windows would be skipped; "
                          "give at most the context",
                          (long long)s->options.stride,
                          (long long)s->options.context);
}

static ls_status write_rows(const session *s)
{
    if (ls_group_rank(s->group) != 0)
        return LS_OK;
    return lsi_cli_show_table(s->call, s->table, s->args->json);
}

/* --data, and the arguments. */
static ls_status run_all(session *s, const lsi_arguments *files)
{
    LS_TRY(lsi_share_outcome(s->group, begin(s), &s->agreed));
    LS_TRY(lsi_cli_lm_open(&s->args->model, s->group, &s->model, &s->agreed));
    LS_TRY(lsi_share_outcome(s->group, choose_windows(s), &s->agreed));
    if (s->args->data != NULL)
        LS_TRY(evaluate(s, s->args->data));
    for (int i = 0; i < files->n; i++)
        LS_TRY(evaluate(s, files->all[i]));
    return lsi_share_outcome(s->group, write_rows(s), &s->agreed);
}

static int run_files(const lsi_invocation *call, const args *a,
                     const lsi_arguments *files)
{
    int exit_status;
    session s = {.args = a, .call = call};
    if (a->model.model == NULL)
        return lsi_cli_usage("--weights PATH is missing");
    if (a->data == NULL && files->n == 0)
        return lsi_cli_usage("give a file of text or tokens to evaluate, as an "
                             "argument or with --data PATH");
    if (!lsi_cli_set_bits(a->bits, NULL, &exit_status) ||
        !lsi_cli_as_rank(call, &a->ranks, 1, &exit_status))
        return exit_status;
    lsi_cli_set_deterministic(a->deterministic);
    if (lsi_cli_open_group(a->ranks.threads, &s.group) != LS_OK)
        return lsi_cli_rank_error();
    const bool first = ls_group_rank(s.group) == 0;
    const ls_status status = run_all(&s, files);
    lsi_cli_lm_close(&s.model);
    lsi_table_free(&s.table);
    exit_status = lsi_cli_rank_exit(status, s.agreed && !first);
    ls_group_close(&s.group);
    return exit_status;
}

static int run_eval_lm(const lsi_invocation *call)
{
    args a;
    int exit_status;
    lsi_arguments files;
    if (!lsi_cli_parse_arguments(call, &a, &files, &exit_status))
        return exit_status;
    exit_status = run_files(call, &a, &files);
    lsi_free(files.all);
    return exit_status;
}

const lsi_command lsi_command_eval_lm = {
    .name = "lm",
    .summary = "Measure the loss and perplexity of a language model on text",
    .arguments = "[FILE ...]",
    .text = "Prints a row for each file: the mean loss over all tokens except "
            "the first, the perplexity (e to the power of the loss), and the "
            "tokens predicted per second. A window contains --context tokens. "
            "The next window begins --stride tokens later; tokens that an "
            "earlier window predicted do not count again. The ranks divide the "
            "windows, in batches of about 2048 tokens, among themselves. With "
            "equal --threads the loss has the same bits on any number of "
            "ranks.",
    LSI_COMMAND_OPTIONS(options),
    .run = run_eval_lm,
};

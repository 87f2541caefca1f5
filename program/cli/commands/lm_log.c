/* Steps, validations and the summary of training a language model. */
#include "cli/commands/lm_log.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "cli/commands/ddp_flags.h"
#include "cli/commands/keep_flags.h"
#include "lockstep/profile.h"
#include "model/nn/transformer_lists.h"
#include "report/table.h"

/* Describes the model and the numbers of tokens. */
static void describe(lsi_lm_log *log, const lsi_lm_start *start)
{
    static const char *const kinds[] = {
#define X(NAME, value, text) [LS_TRANSFORMER_##NAME] = text,
        LSI_TRANSFORMER_KIND_LIST(X)
#undef X
    };
    const ls_transformer_config *const c = start->model;
    snprintf(log->model, sizeof(log->model),
             "%s, %" PRId64 " layer%s, d_model %" PRId64 ", %" PRId64
             " head%s, d_ff %" PRId64 ", vocabulary %" PRId64
             ", context %" PRId64 "; %" PRId64 " parameters",
             kinds[c->kind], c->layers, c->layers == 1 ? "" : "s", c->d_model,
             c->heads, c->heads == 1 ? "" : "s", c->d_ff, c->vocabulary,
             c->context, start->parameters);
    snprintf(log->counts, sizeof(log->counts),
             "%" PRId64 " tokens to train, %" PRId64 " to validate, %" PRId64
             " per step",
             start->train_tokens, start->val_tokens, start->step_tokens);
    log->about.model = log->model;
    log->summary.accumulate =
        start->step_tokens /
        (log->summary.batch_size * start->length * log->about.ranks);
}

ls_status lsi_lm_log_open(lsi_lm_log *log, const lsi_lm_start *start,
                          const lsi_run_outputs *outputs)
{
    log->start = *start;
    log->last = (lsi_lm_step){.step = start->step, .loss = start->loss};
    log->summary.recipe = *start->recipe;
    log->about.first = start->step;
    log->about.kept_lines = start->told;
    lsi_cli_expect_strategy(&log->about, start->choice, start->choices);
    describe(log, start);
    LS_TRY(lsi_run_log_open(&log->run, &log->about,
                            log->is_first ? outputs : NULL));
    lsi_cli_log_keep(log->run, log->summary.keep);
    lsi_run_log_say(log->run,
                    "lm: %" PRId64 " parameters, context %" PRId64
                    "; %s; %d rank%s x %d thread%s",
                    start->parameters, start->length, log->counts,
                    log->about.ranks, log->about.ranks == 1 ? "" : "s",
                    log->about.threads, log->about.threads == 1 ? "" : "s");
    return lsi_cli_log_strategy(log->run, start->choice);
}

void lsi_lm_log_close(lsi_lm_log *log)
{
    lsi_run_log_close(&log->run);
}

static double tokens_per_second(const lsi_lm_log *log, double seconds,
                                int64_t steps)
{
    return seconds > 0.0
               ? (double)log->start.step_tokens * (double)steps / seconds
               : 0.0;
}

ls_status lsi_lm_log_step(lsi_lm_log *log, const lsi_lm_step *step)
{
    const lsi_run_step line = {.step = step->step,
                               .loss = step->loss,
                               .lr = step->lr,
                               .gradient_norm = step->gradient_norm,
                               .loss_scale = step->loss_scale,
                               .skipped = step->skipped,
                               .compared = step->compared,
                               .seconds = step->seconds,
                               .units = (double)log->start.step_tokens};
    log->last = *step;
    if (step->step > log->start.step + 1)
        log->seconds += step->seconds;
    return lsi_run_log_step(log->run, &line);
}

ls_status lsi_lm_log_validation(lsi_lm_log *log, int64_t step, double loss)
{
    const lsi_run_validation line = {.step = step, .loss = loss};
    log->val_loss = loss;
    log->validated = true;
    return lsi_run_log_validation(log->run, &line);
}

/* ---- the summary --------------------------------------------------------- */

static const lsi_column columns[] = {
    LSI_COLUMN(TEXT, "size", "Size"),
    LSI_COLUMN(INT, "parameters", "Parameters"),
    LSI_COLUMN(INT, "ranks", "Ranks"),
    LSI_COLUMN(INT, "steps", "Steps"),
    LSI_COLUMN(REAL, "loss", "Last loss", .decimals = 4),
    LSI_COLUMN(REAL, "val_loss", "Validation loss", .decimals = 4),
    LSI_COLUMN(REAL, "tokens_per_second", "Tokens/s", .decimals = 0),
    LSI_COLUMN(REAL, "peak_megabytes", "Peak memory", .unit = "MB",
               .decimals = 1),
};

static ls_status fill(const lsi_lm_log *log, lsi_table *table)
{
    ls_memory_stats memory;
    ls_memory_total(&memory);
    lsi_table_row(table);
    lsi_table_text(table, "size", log->size);
    lsi_table_int(table, "parameters", log->start.parameters);
    lsi_table_int(table, "ranks", log->about.ranks);
    lsi_table_int(table, "steps", log->last.step);
    if (log->last.step > 0)
        lsi_table_real(table, "loss", log->last.loss);
    if (log->validated)
        lsi_table_real(table, "val_loss", log->val_loss);
    const int64_t timed = log->last.step - log->start.step - 1;
    if (timed > 0)
        lsi_table_real(table, "tokens_per_second",
                       tokens_per_second(log, log->seconds, timed));
    lsi_table_real(table, "peak_megabytes", (double)memory.peak_bytes / 1e6);
    return lsi_table_print(table, stdout);
}

/* Prints the model and its configuration on stderr. */
static void log_summary(const lsi_lm_log *log)
{
    char result[200];
    lsi_run_summary summary = log->summary;
    int used = snprintf(result, sizeof(result), "%" PRId64 " step%s",
                        log->last.step, log->last.step == 1 ? "" : "s");
    if (log->last.step > 0)
        used += snprintf(result + used, sizeof(result) - (size_t)used,
                         ", loss %.4f (perplexity %.4g)", log->last.loss,
                         exp(log->last.loss));
    if (log->validated)
        snprintf(result + used, sizeof(result) - (size_t)used,
                 ", validation loss %.4f (perplexity %.4g)", log->val_loss,
                 exp(log->val_loss));
    summary.about = &log->about;
    summary.compared = log->last.compared;
    summary.model = log->model;
    summary.counts = log->counts;
    summary.result = result;
    lsi_run_summary_log(log->run, &summary);
}

ls_status lsi_lm_log_summary(const lsi_lm_log *log)
{
    lsi_table *table;
    if (!log->is_first)
        return LS_OK;
    LS_TRY(lsi_run_log_end(log->run));
    log_summary(log);
    LS_TRY(LSI_TABLE_NEW(&table, columns));
    const ls_status status = fill(log, table);
    lsi_table_free(&table);
    if (status == LS_OK)
        lsi_run_summary_log_saved(log->run, &log->summary);
    return status;
}

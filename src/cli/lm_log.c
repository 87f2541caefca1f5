/* Steps, validations and the summary of training a language model. */
#include "cli/lm_log.h"

#include <inttypes.h>

#include "base/error.h"
#include "lockstep/profile.h"
#include "report/table.h"

ls_status lsi_lm_log_open(lsi_lm_log *log, const lsi_lm_start *start,
                          const lsi_run_outputs *outputs)
{
    log->start = *start;
    log->last = (lsi_lm_step){.step = start->step, .loss = start->loss};
    log->about.first = start->step;
    log->about.kept_lines = start->told;
    LS_TRY(
        lsi_run_log_open(&log->run, &log->about, log->tells ? outputs : NULL));
    lsi_run_log_say(log->run,
                    "lm: %" PRId64 " parameters, context %" PRId64 "; %" PRId64
                    " tokens to train, %" PRId64 " to validate, %" PRId64
                    " a step; %d rank%s x %d thread%s",
                    start->parameters, start->model->context,
                    start->train_tokens, start->val_tokens, start->step_tokens,
                    log->about.ranks, log->about.ranks == 1 ? "" : "s",
                    log->about.threads, log->about.threads == 1 ? "" : "s");
    return LS_OK;
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
    const lsi_run_step told = {.step = step->step,
                               .loss = step->loss,
                               .lr = step->lr,
                               .gradient_norm = step->gradient_norm,
                               .loss_scale = step->loss_scale,
                               .skipped = step->skipped,
                               .seconds = step->seconds,
                               .units = (double)log->start.step_tokens};
    log->last = *step;
    if (step->step > log->start.step + 1)
        log->seconds += step->seconds;
    return lsi_run_log_step(log->run, &told);
}

ls_status lsi_lm_log_validation(lsi_lm_log *log, int64_t step, double loss)
{
    const lsi_run_validation told = {.step = step, .loss = loss};
    log->val_loss = loss;
    log->validated = true;
    return lsi_run_log_validation(log->run, &told);
}

/* ---- the summary --------------------------------------------------------- */

static const lsi_column columns[] = {
    {.name = "size", .title = "Size"},
    {.name = "parameters", .title = "Parameters", .type = LSI_COLUMN_INT},
    {.name = "ranks", .title = "Ranks", .type = LSI_COLUMN_INT},
    {.name = "steps", .title = "Steps", .type = LSI_COLUMN_INT},
    {.name = "loss",
     .title = "Last loss",
     .type = LSI_COLUMN_REAL,
     .decimals = 4},
    {.name = "val_loss",
     .title = "Validation loss",
     .type = LSI_COLUMN_REAL,
     .decimals = 4},
    {.name = "tokens_per_second",
     .title = "Tokens/s",
     .type = LSI_COLUMN_REAL,
     .decimals = 0},
    {.name = "peak_megabytes",
     .title = "Peak memory",
     .unit = "MB",
     .type = LSI_COLUMN_REAL,
     .decimals = 1},
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
    return lsi_table_markdown(table, stdout);
}

ls_status lsi_lm_log_summary(const lsi_lm_log *log)
{
    lsi_table *table;
    if (!log->tells)
        return LS_OK;
    LS_TRY(lsi_run_log_end(log->run));
    LS_TRY(
        lsi_table_new(&table, columns, sizeof(columns) / sizeof(columns[0])));
    const ls_status status = fill(log, table);
    lsi_table_free(&table);
    return status;
}

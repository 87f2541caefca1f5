/* Lines, metrics and the summary of training a language model. */
#include "cli/lm_log.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "base/threads.h"
#include "cli/loss_scale_log.h"
#include "lockstep/profile.h"
#include "report/table.h"

ls_status lsi_lm_log_open(lsi_lm_log *log, const lsi_lm_start *start,
                          const char *metrics)
{
    log->start = *start;
    log->last = (lsi_lm_step){.step = start->step, .loss = start->loss};
    if (log->quiet)
        return LS_OK;
    fprintf(stderr,
            "lm: %" PRId64 " parameters, context %" PRId64 "; %" PRId64
            " tokens to train, %" PRId64 " to validate, %" PRId64
            " a step; %d rank%s x %d thread%s\n",
            start->parameters, start->model->context, start->train_tokens,
            start->val_tokens, start->step_tokens, log->ranks,
            log->ranks == 1 ? "" : "s", lsi_threads(),
            lsi_threads() == 1 ? "" : "s");
    return lsi_jsonl_open(&log->metrics, metrics, start->told);
}

void lsi_lm_log_close(lsi_lm_log *log)
{
    lsi_jsonl_close(&log->metrics);
}

/* JSON knows no infinities; a loss that is none is null. */
static json_t *real(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static double tokens_per_second(const lsi_lm_log *log, double seconds,
                                int64_t steps)
{
    return seconds > 0.0
               ? (double)log->start.step_tokens * (double)steps / seconds
               : 0.0;
}

static json_t *step_json(const lsi_lm_step *step, double rate)
{
    json_t *line = json_pack(
        "{s:s, s:I, s:o, s:o, s:o, s:o, s:o}", "event", "step", "step",
        (json_int_t)step->step, "loss", real(step->loss), "lr", real(step->lr),
        "gradient_norm", real(step->gradient_norm), "seconds",
        real(step->seconds), "tokens_per_second", real(rate));
    return lsi_loss_scale_json(line, step->loss_scale, step->skipped);
}

ls_status lsi_lm_log_step(lsi_lm_log *log, const lsi_lm_step *step)
{
    log->last = *step;
    if (step->step > log->start.step + 1)
        log->seconds += step->seconds;
    if (log->quiet)
        return LS_OK;
    const double rate = tokens_per_second(log, step->seconds, 1);
    char scale[LSI_LOSS_SCALE_TEXT];
    lsi_loss_scale_text(scale, step->loss_scale, step->skipped);
    if (step->step % log->every == 0 || step->step == 1 ||
        step->step == log->steps)
        fprintf(stderr,
                "step %" PRId64 "/%" PRId64 ": loss %.4f, lr %.3g, gradient "
                "norm %.3f%s, %.0f tokens/s\n",
                step->step, log->steps, step->loss, step->lr,
                step->gradient_norm, scale, rate);
    return lsi_jsonl_write(log->metrics, step_json(step, rate));
}

ls_status lsi_lm_log_validation(lsi_lm_log *log, int64_t step, double loss)
{
    log->val_loss = loss;
    log->validated = true;
    if (log->quiet)
        return LS_OK;
    fprintf(stderr, "step %" PRId64 "/%" PRId64 ": validation loss %.4f\n",
            step, log->steps, loss);
    return lsi_jsonl_write(log->metrics,
                           json_pack("{s:s, s:I, s:o}", "event", "validation",
                                     "step", (json_int_t)step, "val_loss",
                                     real(loss)));
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
    lsi_table_int(table, "ranks", log->ranks);
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
    if (log->quiet)
        return LS_OK;
    LS_TRY(
        lsi_table_new(&table, columns, sizeof(columns) / sizeof(columns[0])));
    const ls_status status = fill(log, table);
    lsi_table_free(&table);
    return status;
}

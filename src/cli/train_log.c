/*
 * Lines, metrics and the summary of a training run.
 */
#include "cli/train_log.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "base/memory.h"
#include "cli/loss_scale_log.h"
#include "report/stats.h"
#include "report/table.h"

static const double megabyte = 1e6;

ls_status lsi_train_log_open(lsi_train_log *log, const char *metrics,
                             int64_t epochs)
{
    if (log->quiet)
        return LS_OK;
    void *done;
    LS_TRY(lsi_alloc(&done, (size_t)log->epochs * sizeof(lsi_epoch),
                     LS_MEMORY_OTHER, "the results of the epochs"));
    log->done = done;
    return lsi_jsonl_open(&log->metrics, metrics, epochs);
}

void lsi_train_log_close(lsi_train_log *log)
{
    lsi_progress_end(&log->progress);
    lsi_jsonl_close(&log->metrics);
    lsi_free(log->done);
    log->done = NULL;
}

void lsi_train_log_step(lsi_train_log *log, const lsi_progress_report *report)
{
    char note[48];
    if (log->quiet)
        return;
    if (!log->shown) {
        log->shown = true;
        snprintf(log->label, sizeof(log->label), "epoch %" PRId64 "/%" PRId64,
                 report->epoch + 1, log->epochs);
        lsi_progress_begin(&log->progress, stderr, log->label, report->steps);
    }
    snprintf(note, sizeof(note), "loss %.4f", lsi_totals_loss(&report->totals));
    lsi_progress_update(&log->progress, report->step, note);
}

/* JSON knows no infinities; a loss that is none is null. */
static json_t *real(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *epoch_json(const lsi_epoch *e)
{
    json_t *line = json_pack(
        "{s:s, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I}", "event", "epoch",
        "epoch", (json_int_t)e->epoch, "train_loss", real(e->train_loss),
        "train_accuracy", real(e->train_accuracy), "train_seconds",
        real(e->train_seconds), "images_per_second", real(e->images_per_second),
        "val_loss", real(e->val_loss), "val_accuracy", real(e->val_accuracy),
        "peak_bytes", (json_int_t)e->peak_bytes, "collectives",
        (json_int_t)e->collectives);
    return lsi_loss_scale_json(line, e->loss_scale, e->skipped);
}

ls_status lsi_train_log_epoch(lsi_train_log *log, const lsi_epoch *epoch)
{
    if (log->quiet)
        return LS_OK;
    char scale[LSI_LOSS_SCALE_TEXT];
    lsi_loss_scale_text(scale, epoch->loss_scale, epoch->skipped);
    lsi_progress_end(&log->progress);
    log->shown = false;
    fprintf(stderr,
            "epoch %" PRId64 "/%" PRId64 ": loss %.4f, accuracy %.4f; "
            "validation loss %.4f, accuracy %.4f%s; %.2f s, %.0f images/s\n",
            epoch->epoch + 1, log->epochs, epoch->train_loss,
            epoch->train_accuracy, epoch->val_loss, epoch->val_accuracy, scale,
            epoch->train_seconds, epoch->images_per_second);
    log->done[log->n_done++] = *epoch;
    return lsi_jsonl_write(log->metrics, epoch_json(epoch));
}

/* ---- the summary -----------------------------------------------------------
 */

static const lsi_column columns[] = {
    {.name = "implementation", .title = "Implementation"},
    {.name = "ranks", .title = "Ranks", .type = LSI_COLUMN_INT},
    {.name = "epochs", .title = "Epochs", .type = LSI_COLUMN_INT},
    {.name = "accuracy",
     .title = "Final validation accuracy",
     .type = LSI_COLUMN_REAL,
     .decimals = 4},
    {.name = "peak_megabytes",
     .title = "Mean peak memory",
     .unit = "MB",
     .type = LSI_COLUMN_REAL,
     .decimals = 1},
    {.name = "epoch_seconds",
     .title = "Mean epoch time",
     .unit = "s",
     .type = LSI_COLUMN_REAL,
     .decimals = 3},
};

/* The mean of a value of all epochs between its 10th and 90th percentile. */
static ls_status middle_of(const lsi_train_log *log,
                           double (*value)(const lsi_epoch *), double *out)
{
    void *block;
    LS_TRY(lsi_alloc(&block, log->n_done * sizeof(double), LS_MEMORY_OTHER,
                     "a summary"));
    double *const values = block;
    for (size_t i = 0; i < log->n_done; i++)
        values[i] = value(&log->done[i]);
    lsi_stats stats;
    const ls_status status = lsi_stats_of(values, log->n_done, &stats);
    lsi_free(values);
    if (status == LS_OK)
        *out = stats.middle;
    return status;
}

static double seconds_of(const lsi_epoch *epoch)
{
    return epoch->train_seconds;
}

static double peak_of(const lsi_epoch *epoch)
{
    return (double)epoch->peak_bytes;
}

static ls_status fill(const lsi_train_log *log, lsi_table *table)
{
    double seconds, peak;
    LS_TRY(middle_of(log, seconds_of, &seconds));
    LS_TRY(middle_of(log, peak_of, &peak));
    lsi_table_row(table);
    lsi_table_text(table, "implementation", log->name);
    lsi_table_int(table, "ranks", log->ranks);
    lsi_table_int(table, "epochs", (int64_t)log->n_done);
    lsi_table_real(table, "accuracy", log->done[log->n_done - 1].val_accuracy);
    lsi_table_real(table, "peak_megabytes", peak / megabyte);
    lsi_table_real(table, "epoch_seconds", seconds);
    return lsi_table_markdown(table, stdout);
}

ls_status lsi_train_log_summary(const lsi_train_log *log)
{
    if (log->quiet)
        return LS_OK;
    lsi_table *table;
    LS_TRY(
        lsi_table_new(&table, columns, sizeof(columns) / sizeof(columns[0])));
    const ls_status status = fill(log, table);
    lsi_table_free(&table);
    return status;
}

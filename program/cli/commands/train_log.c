/*
 * Steps, epochs and the summary of a training run.
 */
#include "cli/commands/train_log.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "base/memory.h"
#include "cli/commands/ddp_flags.h"
#include "cli/commands/keep_flags.h"
#include "report/stats.h"
#include "report/table.h"

static const double megabyte = 1e6;

ls_status lsi_train_log_open(lsi_train_log *log,
                             const lsi_classify_start *start,
                             const lsi_run_outputs *outputs)
{
    lsi_run_about *const a = &log->about;
    void *done, *ranks;
    log->summary.recipe = *start->recipe;
    a->first = start->step;
    a->steps = start->total_steps;
    a->kept_lines = start->epoch;
    lsi_cli_expect_strategy(a, start->choice, start->choices);
    snprintf(log->counts, sizeof(log->counts),
             "%" PRId64 " images to train, %" PRId64 " to validate",
             start->train_images, start->val_images);
    snprintf(log->model, sizeof(log->model), "%s, %" PRId64 " parameters",
             a->model, start->parameters);
    LS_TRY(lsi_alloc(&done, (size_t)a->epochs * sizeof(lsi_epoch),
                     LS_MEMORY_OTHER, "the results of the epochs"));
    log->done = done;
    LS_TRY(lsi_alloc(&ranks, (size_t)a->ranks * sizeof(lsi_run_rank),
                     LS_MEMORY_OTHER, "the results of the ranks"));
    log->ranks = ranks;
    log->step = start->step;
    LS_TRY(lsi_run_log_open(&log->run, a, log->is_first ? outputs : NULL));
    lsi_cli_log_keep(log->run, log->summary.keep);
    lsi_run_log_say(
        log->run, "%s: %s (%s); %d rank%s x %d thread%s", a->job, log->counts,
        log->summary.data != NULL ? log->summary.data : "built-in", a->ranks,
        a->ranks == 1 ? "" : "s", a->threads, a->threads == 1 ? "" : "s");
    return lsi_cli_log_strategy(log->run, start->choice);
}

void lsi_train_log_close(lsi_train_log *log)
{
    lsi_run_log_close(&log->run);
    lsi_free(log->done);
    lsi_free(log->ranks);
    log->done = NULL;
    log->ranks = NULL;
}

/* The loss is over the images of rank 0; losses of steps are not gathered. */
static lsi_run_step step_of(const lsi_train_log *log,
                            const lsi_progress_report *report)
{
    const lsi_stepper *const s = report->stepper;
    return (lsi_run_step){.step = s->steps,
                          .epoch = report->epoch + 1,
                          .loss = lsi_totals_loss(&report->step_totals),
                          .lr = s->lr,
                          .gradient_norm = s->clip != NULL ? s->norm : NAN,
                          .loss_scale = s->loss_scale.scale,
                          .skipped = s->loss_scale.skipped,
                          .seconds = report->step_seconds,
                          .units = report->step_totals.weight *
                                   (double)log->about.ranks};
}

/* Write errors are reported after the epoch. */
void lsi_train_log_step(lsi_train_log *log, const lsi_progress_report *report)
{
    const lsi_run_part part = {.epoch = report->epoch + 1,
                               .done = report->step,
                               .all = report->steps,
                               .loss = lsi_totals_loss(&report->totals)};
    lsi_run_log_part(log->run, &part);
    if (report->stepper == NULL)
        return;
    const lsi_run_step step = step_of(log, report);
    log->step = step.step;
    (void)lsi_run_log_step(log->run, &step);
}

/* Of all ranks, as far as they are known here. */
static size_t list_ranks(const lsi_train_log *log, const lsi_epoch *epoch)
{
    const size_t n = epoch->ranks != NULL ? (size_t)log->about.ranks : 0;
    for (size_t i = 0; i < n; i++) {
        const lsi_rank_epoch *const r = &epoch->ranks[i];
        log->ranks[i] = (lsi_run_rank){
            .train_loss = r->train_loss,
            .train_accuracy = r->train_accuracy,
            .train_seconds = r->train_seconds,
            .waited_seconds = r->waited_seconds,
            .rate = r->train_seconds > 0 ? r->images / r->train_seconds : 0,
            .val_loss = r->val_loss,
            .val_accuracy = r->val_accuracy,
            .peak_bytes = (uint64_t)r->peak_bytes};
    }
    return n;
}

ls_status lsi_train_log_epoch(lsi_train_log *log, const lsi_epoch *epoch)
{
    const lsi_run_epoch line = {.epoch = epoch->epoch + 1,
                                .step = log->step,
                                .train_loss = epoch->train_loss,
                                .train_accuracy = epoch->train_accuracy,
                                .train_seconds = epoch->train_seconds,
                                .rate = epoch->images_per_second,
                                .waited_seconds = epoch->waited_seconds,
                                .val_loss = epoch->val_loss,
                                .val_accuracy = epoch->val_accuracy,
                                .loss_scale = epoch->loss_scale,
                                .skipped = epoch->skipped,
                                .compared = epoch->compared,
                                .peak_bytes = epoch->peak_bytes,
                                .collectives = epoch->collectives,
                                .ranks = log->ranks,
                                .n_ranks = list_ranks(log, epoch)};
    log->done[log->n_done] = *epoch;
    log->done[log->n_done++].ranks = NULL; /* they are gone after the call */
    return lsi_run_log_epoch(log->run, &line);
}

/* ---- the summary -----------------------------------------------------------
 */

static const lsi_column columns[] = {
    LSI_COLUMN(TEXT, "implementation", "SyncBatchNorm"),
    LSI_COLUMN(INT, "ranks", "Ranks"),
    LSI_COLUMN(INT, "epochs", "Epochs"),
    LSI_COLUMN(REAL, "accuracy", "Final validation accuracy", .decimals = 4),
    LSI_COLUMN(REAL, "peak_megabytes", "Mean peak memory", .unit = "MB",
               .decimals = 1),
    LSI_COLUMN(REAL, "epoch_seconds", "Mean epoch time", .unit = "s",
               .decimals = 3),
};

/* The mean of a value of all epochs between its 10th and 90th percentile. */
static ls_status middle_of(const lsi_train_log *log,
                           double (*value)(const lsi_epoch *), double *out)
{
    double *values;
    LS_TRY(lsi_alloc(&values, log->n_done * sizeof(double), LS_MEMORY_OTHER,
                     "a summary"));
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
    lsi_table_int(table, "ranks", log->about.ranks);
    lsi_table_int(table, "epochs", (int64_t)log->n_done);
    lsi_table_real(table, "accuracy", log->done[log->n_done - 1].val_accuracy);
    lsi_table_real(table, "peak_megabytes", peak / megabyte);
    lsi_table_real(table, "epoch_seconds", seconds);
    return lsi_table_print(table, stdout);
}

/* Prints the network and its configuration on stderr. */
static void log_summary(const lsi_train_log *log)
{
    const lsi_epoch *const last = &log->done[log->n_done - 1];
    char result[200];
    lsi_run_summary summary = log->summary;
    snprintf(result, sizeof(result),
             "%" PRId64 " epoch%s, %" PRId64
             " step%s, training loss %.4f, training accuracy %.4f, validation "
             "loss %.4f, validation accuracy %.4f",
             last->epoch + 1, last->epoch == 0 ? "" : "s", log->step,
             log->step == 1 ? "" : "s", last->train_loss, last->train_accuracy,
             last->val_loss, last->val_accuracy);
    summary.about = &log->about;
    summary.compared = last->compared;
    summary.model = log->model;
    summary.counts = log->counts;
    summary.result = result;
    lsi_run_summary_log(log->run, &summary);
}

ls_status lsi_train_log_summary(const lsi_train_log *log)
{
    if (!log->is_first)
        return LS_OK;
    lsi_table *table;
    LS_TRY(lsi_run_log_end(log->run));
    if (log->n_done == 0)
        return LS_OK;
    log_summary(log);
    LS_TRY(LSI_TABLE_NEW(&table, columns));
    const ls_status status = fill(log, table);
    lsi_table_free(&table);
    if (status == LS_OK)
        lsi_run_summary_log_saved(log->run, &log->summary);
    return status;
}

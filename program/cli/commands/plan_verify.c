#include "cli/commands/plan_verify.h"

#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "report/result.h"
#include "report/table.h"

static const char *const usual_models[] = {"tiny", "small"};
static const int rank_counts[] = {1, 2, 4};
static const struct {
    const char *strategy;
    double bucket_mb; /* 0: none */
} ways[] = {{"flat", 0}, {"bucketed", 25}, {"zero1", 25}};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#define REAL(name_, title_, unit_, decimals_, width_)                          \
    LSI_COLUMN(REAL, name_, title_, .unit = (unit_), .decimals = (decimals_),  \
               .width = (width_))
static const lsi_column columns[] = {
    LSI_COLUMN(TEXT, "model", "Model", .width = 6),
    LSI_COLUMN(TEXT, "strategy", "Strategy", .width = 8),
    LSI_COLUMN(INT, "ranks", "Ranks"),
    REAL("predicted_seconds", "Predicted", "s", 4, 8),
    REAL("measured_seconds", "measured", NULL, 4, 8),
    REAL("seconds_error_percent", "error", "%", 1, 6),
    REAL("predicted_gb", "Memory predicted", "GB", 3, 8),
    REAL("measured_gb", "measured", NULL, 3, 8),
    REAL("memory_error_percent", "error", "%", 1, 6),
};

static double off_by(double predicted, double measured)
{
    return 100 * (predicted / measured - 1);
}

static ls_status add(lsi_plan_flags f, size_t way, lsi_plan_known *measured,
                     lsi_table *table)
{
    lsi_facts facts;
    double seconds, bytes;
    char bucket[32];
    f.strategy = ways[way].strategy;
    f.bucket_mb = ways[way].bucket_mb;
    LS_TRY(lsi_plan_predict(&f, measured, &facts));
    const lsi_plan_case c = {.model = f.model,
                             .dtype = f.dtype != NULL ? f.dtype : "f32",
                             .batch = (int64_t)lsi_facts_get(&facts, "batch"),
                             .context =
                                 (int64_t)lsi_facts_get(&facts, "context"),
                             .ranks = (int)f.ranks};
    snprintf(bucket, sizeof(bucket), "%g", f.bucket_mb);
    LS_TRY(lsi_plan_measure_step(
        &c, f.strategy, f.bucket_mb > 0 ? bucket : NULL, &seconds, &bytes));
    const double predicted = lsi_facts_get(&facts, "step_seconds");
    const double memory = lsi_facts_get(&facts, "total_bytes");
    lsi_table_row(table);
    lsi_table_text(table, "model", f.model);
    lsi_table_text(table, "strategy", f.strategy);
    lsi_table_int(table, "ranks", f.ranks);
    lsi_table_real(table, "predicted_seconds", predicted);
    lsi_table_real(table, "measured_seconds", seconds);
    lsi_table_real(table, "seconds_error_percent", off_by(predicted, seconds));
    lsi_table_real(table, "predicted_gb", memory / 1e9);
    lsi_table_real(table, "measured_gb", bytes / 1e9);
    lsi_table_real(table, "memory_error_percent", off_by(memory, bytes));
    return lsi_table_status(table);
}

static ls_status verify_model(lsi_plan_flags f, lsi_table *table, bool prints)
{
    f.calibrate = true;
    for (size_t r = 0; r < COUNT(rank_counts); r++) {
        lsi_plan_known measured = {.here = 0};
        f.ranks = rank_counts[r];
        for (size_t way = 0; way < COUNT(ways); way++) {
            LS_TRY(add(f, way, &measured, table));
            if (!prints)
                continue;
            LS_TRY(lsi_table_print_rows(table, lsi_table_row_count(table) - 1,
                                        stdout));
            fflush(stdout);
        }
    }
    return LS_OK;
}

static void print_worst(const lsi_table *table)
{
    static const char *const errors[] = {"seconds_error_percent",
                                         "memory_error_percent"};
    double worst[COUNT(errors)] = {0};
    for (size_t row = 0; row < lsi_table_row_count(table); row++) {
        for (size_t i = 0; i < COUNT(errors); i++) {
            double error = 0;
            (void)lsi_table_number(table, row, errors[i], &error);
            worst[i] = fmax(worst[i], fabs(error));
        }
    }
    printf("\nLargest errors: %.1f %% for times, %.1f %% for memory. Each "
           "measured time is that of the fastest of 12 steps. Times vary from "
           "run to run on a busy "
           "machine, or if other virtual machines use its CPUs.\n",
           worst[0], worst[1]);
}

static ls_status verify_all(const lsi_plan_flags *f, lsi_table *table,
                            bool prints)
{
    lsi_plan_flags one = *f;
    if (f->model != NULL)
        return verify_model(one, table, prints);
    for (size_t i = 0; i < COUNT(usual_models); i++) {
        one.model = usual_models[i];
        LS_TRY(verify_model(one, table, prints));
    }
    return LS_OK;
}

ls_status lsi_plan_verify(const lsi_invocation *call, const lsi_plan_flags *f)
{
    const bool prints = !lsi_result_is_stdout(f->json);
    lsi_table *table;
    LS_TRY(LSI_TABLE_NEW(&table, columns));
    ls_status status = prints ? lsi_table_print_titles(table, stdout) : LS_OK;
    if (status == LS_OK)
        status = verify_all(f, table, prints);
    if (status == LS_OK && prints)
        print_worst(table);
    if (status == LS_OK)
        status = lsi_cli_write_table(call, table, f->json);
    lsi_table_free(&table);
    return status;
}

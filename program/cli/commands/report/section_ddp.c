/*
 * Strategies of gradients: their steps, bucket sizes, the communication that
 * computation hides, and the gain of more ranks.
 */
#include <math.h>
#include <stdio.h>

#include "cli/commands/report/report.h"

static const lsi_study_column columns[] = {
    {"Strategy", "strategy", 0, 0},
    {"Bucket (MB)", "bucket_mb", 0, 0},
    {"Model", "model", 0, 0},
    {"Ranks", "ranks", 0, 0},
    {"Batch", "batch", 0, 0},
    {"Step (ms)", "step_time_avg_s", 1, 1e3},
    {"±", "step_time_std_s", 1, 1e3},
    {"Exposed communication (ms)", "comm_time_avg_s", 2, 1e3},
    {"±", "comm_time_std_s", 2, 1e3},
    {"Share (%)", "comm_frac_avg", 1, 100},
    {"Forward (ms)", "forward_s", 1, 1e3},
    {"Backward (ms)", "backward_s", 1, 1e3},
    {"Optimizer (ms)", "optimizer_s", 1, 1e3},
    {"Collectives", "collectives_per_step", 0, 0},
    {"Sent (MB)", "bytes_sent", 1, 1e-6},
    {"Status", "status", 0, 0},
};

enum { MOST_BARS = 16 };

/* ---- strategies ---------------------------------------------------------- */

static const lsi_measurement strategies[] = {
    {"ddp", LSI_ROWS_JSON,
     "bench ddp --size tiny -n 2 -w 1 --iterations 5 --bucket-mb 10",
     "bench ddp --size small -n 2 --bucket-mb 10", 12, 300, false},
};

/* Bars of the parts of a step; names must outlive the drawing. */
static void draw_parts(lsi_study *r, const json_t *rows)
{
    static const struct {
        const char *name, *path;
    } parts[] = {{"forward", "forward_s"},
                 {"backward", "backward_s"},
                 {"optimizer", "optimizer_s"},
                 {"exposed communication", "comm_time_avg_s"}};
    const char *names[MOST_BARS];
    size_t n = 0;
    lsi_study_plot p = lsi_study_plot_new(
        "ddp-strategies", "Parts of a step on two ranks, by strategy; exposed "
                          "communication is not hidden by computation");
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        lsi_study_series *const s =
            lsi_study_plot_series(&p, LSI_PLOT_BARS, "%s", parts[i].name);
        n = 0;
        for (size_t k = 0; k < json_array_size(rows) && n < MOST_BARS; k++) {
            const json_t *const row = json_array_get(rows, k);
            const double value = lsi_number_at(row, parts[i].path);
            if (!isfinite(value))
                continue;
            names[n] = lsi_string_at(row, "strategy");
            lsi_study_point(s, (double)n++, value * 1e3);
        }
    }
    p.plot.stacked = true;
    p.plot.x = (lsi_plot_axis){
        .label = "strategy", .categories = names, .n_categories = n};
    p.plot.y = (lsi_plot_axis){.label = "step time (ms)", .from_zero = true};
    lsi_study_draw(r, &p);
}

static void answer_strategies(lsi_study *r, const json_t *file)
{
    const json_t *const naive = lsi_row_where(file, "strategy=naive");
    const json_t *const flat = lsi_row_where(file, "strategy=flat");
    const json_t *const overlap = lsi_row_where(file, "strategy=overlap");
    const double times[] = {lsi_number_at(naive, "comm_time_avg_s") * 1e3,
                            lsi_number_at(flat, "comm_time_avg_s") * 1e3,
                            lsi_number_at(overlap, "comm_time_avg_s") * 1e3};
    if (isfinite(times[0]) && isfinite(times[1]))
        lsi_document_paragraph(
            r->document,
            "With one all-reduce per gradient (naive), %.0f collectives after "
            "backward take %.2f ms of a step. With one all-reduce for all "
            "gradients (flat), %.0f collectives take %.2f ms. Both send the "
            "same bytes. The difference is the fixed cost of a collective, and "
            "the time in which ranks wait for each other.",
            lsi_number_at(naive, "collectives_per_step"), times[0],
            lsi_number_at(flat, "collectives_per_step"), times[1]);
    if (isfinite(times[1]) && isfinite(times[2]))
        lsi_document_paragraph(
            r->document,
            "With reductions during backward (overlap), %.2f ms of "
            "communication remain exposed. A step takes %.1f ms; without "
            "overlap (flat), a step takes %.1f ms.",
            times[2], lsi_number_at(overlap, "step_time_avg_s") * 1e3,
            lsi_number_at(flat, "step_time_avg_s") * 1e3);
}

static void write_strategies(lsi_study *r)
{
    json_t *const file = lsi_rows_of("ddp");
    const json_t *const rows = json_object_get(file, "rows");
    static const lsi_study_column others[] = {
        {"Program", "peer", 0, 0},      {"Strategy", "strategy", 0, 0},
        {"Model", "size", 0, 0},        {"Ranks", "ranks", 0, 0},
        {"Step (ms)", "step_ms", 1, 0}, {"Communication (ms)", "comm_ms", 1, 0},
    };
    LSI_STUDY_TABLE(r, rows, columns);
    answer_strategies(r, file);
    LSI_STUDY_PEERS(r, "ddp", others);
    draw_parts(r, rows);
    json_decref(file);
}

const lsi_section lsi_section_strategies = {
    .id = "strategies",
    .title = "Data-parallel strategies",
    LSI_MEASUREMENTS(strategies),
    .write = write_strategies,
};

/* ---- bucket sizes -------------------------------------------------------- */

static const lsi_measurement buckets[] = {
    {"buckets", LSI_ROWS_JSON,
     "bench ddp --size tiny -n 2 -w 1 --iterations 5 --strategy bucketed "
     "--bucket-mb 1,3,10,100",
     "bench ddp --size small -n 2 --strategy bucketed --bucket-mb "
     "1,10,100,1000",
     4, 120, false},
};

/* Costs of a collective: seconds per call, and bytes per second. */
typedef struct link_costs {
    double call, rate;
} link_costs;

static link_costs measure_link(void)
{
    json_t *const file = lsi_rows_of("all-reduce-private");
    json_t *const rows = lsi_rows_where(file, "ranks=2");
    const size_t n = json_array_size(rows);
    const json_t *const small = json_array_get(rows, 0);
    const json_t *const large = json_array_get(rows, n > 0 ? n - 1 : 0);
    const link_costs costs = {
        lsi_number_at(small, "time_us.median") * 1e-6,
        lsi_number_at(large, "bytes") /
            (lsi_number_at(large, "time_us.median") * 1e-6)};
    json_decref(rows);
    json_decref(file);
    return costs;
}

/* Seconds left after backward, by the formula: the last bucket, and calls. */
static double predicted(const json_t *row, const link_costs *link)
{
    const double n = lsi_number_at(row, "collectives_per_step");
    const double bytes = lsi_number_at(row, "peak_bytes.init.gradients");
    return bytes / (n * link->rate) + n * link->call;
}

static void bucket_table(lsi_study *r, const json_t *rows,
                         const link_costs *link)
{
    static const char *const titles[] = {
        "Bucket (MB)", "Buckets", "Exposed communication, measured (ms)",
        "Exposed communication, predicted (ms)"};
    static const bool numbers[] = {true, true, true, true};
    lsi_document_table(r->document, titles, numbers, 4);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *const row = json_array_get(rows, i);
        char texts[4][32];
        const char *const cells[] = {texts[0], texts[1], texts[2], texts[3]};
        snprintf(texts[0], sizeof(texts[0]), "%g",
                 lsi_number_at(row, "bucket_mb"));
        snprintf(texts[1], sizeof(texts[1]), "%.0f",
                 lsi_number_at(row, "collectives_per_step"));
        snprintf(texts[2], sizeof(texts[2]), "%.3f",
                 lsi_number_at(row, "comm_time_avg_s") * 1e3);
        snprintf(texts[3], sizeof(texts[3]), "%.3f",
                 predicted(row, link) * 1e3);
        lsi_document_row(r->document, cells, 4);
    }
}

static void draw_buckets(lsi_study *r, const json_t *rows,
                         const link_costs *link)
{
    lsi_study_plot p =
        lsi_study_plot_new("buckets", "Exposed communication by bucket size");
    p.plot.x = (lsi_plot_axis){.label = "bucket (MB)", .log = true};
    p.plot.y = (lsi_plot_axis){.label = "exposed communication (ms)",
                               .from_zero = true};
    lsi_study_series *const s =
        lsi_study_plot_series(&p, LSI_PLOT_LINES_POINTS, "measured");
    lsi_study_series *const f =
        lsi_study_plot_series(&p, LSI_PLOT_LINES_POINTS, "predicted");
    f->dashed = true;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *const row = json_array_get(rows, i);
        const double size = lsi_number_at(row, "bucket_mb");
        lsi_study_point(s, size, lsi_number_at(row, "comm_time_avg_s") * 1e3);
        lsi_study_point(f, size, predicted(row, link) * 1e3);
    }
    lsi_study_draw(r, &p);
}

static void write_buckets(lsi_study *r)
{
    json_t *const file = lsi_rows_of("buckets");
    const json_t *const rows = json_object_get(file, "rows");
    const link_costs link = measure_link();
    const double bytes =
        lsi_number_at(json_array_get(rows, 0), "peak_bytes.init.gradients");
    LSI_STUDY_TABLE(r, rows, columns);
    if (isfinite(link.rate) && isfinite(bytes)) {
        lsi_document_paragraph(
            r->document,
            "For n buckets, the predicted exposed communication is s/(n w) + n "
            "o. The size of all gradients is s = %.1f MB. The largest "
            "all-reduce of private buffers above has the bandwidth w = %.2f "
            "GB/s. The smallest all-reduce takes o = %.4f ms. The prediction "
            "is smallest for buckets of √(s w o) = %.3f MB. The formula "
            "assumes that computation hides all buckets except the last one at "
            "no cost. This is not true if reductions and computation share "
            "CPUs.",
            bytes * 1e-6, link.rate * 1e-9, link.call * 1e3,
            sqrt(bytes * link.rate * link.call) * 1e-6);
        bucket_table(r, rows, &link);
        draw_buckets(r, rows, &link);
    }
    json_decref(file);
}

const lsi_section lsi_section_buckets = {
    .id = "buckets",
    .title = "Bucket sizes",
    LSI_MEASUREMENTS(buckets),
    .write = write_buckets,
};

/* ---- more ranks ---------------------------------------------------------- */

static const lsi_measurement scaling[] = {
    {"scaling", LSI_ROWS_JSON,
     "bench ddp --size tiny -n 1,2 --threads 1 -w 1 --iterations 5 "
     "--strategy flat,overlap --bucket-mb 10",
     "bench ddp --size small -n 1,2,4 --threads 1 --strategy "
     "flat,overlap --bucket-mb 10",
     6, 200, false},
};

static void write_scaling(lsi_study *r)
{
    json_t *const file = lsi_rows_of("scaling");
    const json_t *const one = lsi_row_where(file, "strategy=flat ranks=1");
    const double alone = lsi_number_at(one, "step_time_avg_s");
    static const char *const names[] = {"flat", "overlap"};
    LSI_STUDY_TABLE(r, json_object_get(file, "rows"), columns);
    lsi_study_plot p = lsi_study_plot_new(
        "scaling",
        "Sequences per second by number of ranks, with one thread per rank");
    p.plot.x = (lsi_plot_axis){.label = "ranks", .whole = true};
    p.plot.y =
        (lsi_plot_axis){.label = "sequences per second", .from_zero = true};
    lsi_study_series *const ideal = lsi_study_plot_series(
        &p, LSI_PLOT_LINES, "linear scaling from one rank");
    ideal->dashed = true;
    ideal->colour = 8;
    for (size_t i = 0; i < 2; i++) {
        char condition[64];
        snprintf(condition, sizeof(condition), "strategy=%s", names[i]);
        json_t *const rows = lsi_rows_where(file, condition);
        lsi_study_series *const s =
            lsi_study_plot_series(&p, LSI_PLOT_LINES_POINTS, "%s", names[i]);
        for (size_t k = 0; k < json_array_size(rows); k++) {
            const json_t *const row = json_array_get(rows, k);
            const double ranks = lsi_number_at(row, "ranks");
            const double step = lsi_number_at(row, "step_time_avg_s");
            lsi_study_point(s, ranks,
                            lsi_number_at(row, "global_batch_size") / step);
            if (i == 0 && isfinite(alone))
                lsi_study_point(
                    ideal, ranks,
                    ranks * lsi_number_at(one, "global_batch_size") / alone);
            if (isfinite(alone) && ranks > 1)
                lsi_document_item(
                    r->document,
                    "%s: %.0f ranks reach %.1f%% of linear scaling", names[i],
                    ranks, 100 * alone / step);
        }
        json_decref(rows);
    }
    lsi_study_draw(r, &p);
    json_decref(file);
}

const lsi_section lsi_section_scaling = {
    .id = "scaling",
    .title = "Scaling with the number of ranks",
    LSI_MEASUREMENTS(scaling),
    .write = write_scaling,
};

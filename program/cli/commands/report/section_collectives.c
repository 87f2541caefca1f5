/*
 * Collectives: bandwidth over sizes, the ring, batch normalisation.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/commands/report/report.h"

/* ---- all-reduce ---------------------------------------------------------- */

static const lsi_measurement all_reduce[] = {
    {"all-reduce", LSI_ROWS_JSON,
     "bench all-reduce -n 2,4,6 --sizes 1000,100000,1000000,10000000 "
     "--iterations 10 --place in",
     "bench all-reduce --preset single-node", 8, 240, false},
    {"all-reduce-shared", LSI_ROWS_JSON,
     "bench all-reduce -n 2 --sizes "
     "1000,10000,100000,1000000,10000000,100000000 --iterations 10 --place in "
     "--buffers shared",
     "bench all-reduce -n 2,4,6 --sizes "
     "1000,10000,100000,1000000,10000000,100000000,1000000000 --iterations 20 "
     "--place in --buffers shared",
     4, 60, false},
    {"all-reduce-private", LSI_ROWS_JSON,
     "bench all-reduce -n 2 --sizes "
     "1000,10000,100000,1000000,10000000,100000000 --iterations 10 --place in",
     "bench all-reduce -n 2,4,6 --sizes "
     "1000,10000,100000,1000000,10000000,100000000 --iterations 20 --place in",
     4, 60, false},
};

static void add_bandwidth(lsi_study_plot *p, const char *id, const char *name)
{
    json_t *const file = lsi_rows_of(id);
    json_t *const rows = lsi_rows_where(file, "ranks=2");
    lsi_study_points(
        lsi_study_plot_series(p, LSI_PLOT_LINES_POINTS, "%s", name), rows,
        "bytes", "busbw_gbps");
    json_decref(rows);
    json_decref(file);
}

/* A series for each program that was recorded with two ranks. */
static void add_peers(lsi_study *r, lsi_study_plot *p)
{
    json_t *const peers = lsi_study_peers(r, "all-reduce");
    lsi_study_series *s = NULL;
    const char *last = "";
    for (size_t i = 0; i < json_array_size(peers); i++) {
        const json_t *const row = json_array_get(peers, i);
        const double bytes = lsi_number_at(row, "bytes");
        const double ms = lsi_number_at(row, "time_ms");
        if (lsi_number_at(row, "ranks") != 2 || !isfinite(bytes) || !(ms > 0))
            continue;
        if (s == NULL || strcmp(last, lsi_string_at(row, "peer")) != 0) {
            last = lsi_string_at(row, "peer");
            s = lsi_study_plot_series(p, LSI_PLOT_LINES_POINTS, "%s", last);
            s->dashed = true;
        }
        lsi_study_point(s, bytes, bytes / ms * 1e-6);
    }
    json_decref(peers);
}

/* The bandwidth of a rank's share of the memory, as measured by profile. */
static void add_ceiling(lsi_study_plot *p)
{
    json_t *const profile = lsi_rows_of("profile");
    const double peak = lsi_number_at(profile, "peaks.gb_per_s");
    if (isfinite(peak)) {
        lsi_study_series *const s = lsi_study_plot_series(
            p, LSI_PLOT_LINES, "measured memory bandwidth");
        s->dashed = true;
        s->colour = 8;
        lsi_study_point(s, 1e3, peak);
        lsi_study_point(s, 1e8, peak);
    }
    json_decref(profile);
}

static void write_all_reduce(lsi_study *r)
{
    static const lsi_study_column columns[] = {
        {"Ranks", "ranks", 0, 0},
        {"Bytes", "bytes", 0, 0},
        {"Buffers", "buffers", 0, 0},
        {"Algorithm", "algorithm", 0, 0},
        {"Median (ms)", "time_us.median", 4, 1e-3},
        {"Min (ms)", "time_us.min", 4, 1e-3},
        {"Max (ms)", "time_us.max", 4, 1e-3},
        {"Bus bandwidth (GB/s)", "busbw_gbps", 2, 0},
        {"Wrong", "wrong", 0, 0},
    };
    static const lsi_study_column others[] = {
        {"Program", "peer", 0, 0},
        {"Ranks", "ranks", 0, 0},
        {"Bytes", "bytes", 0, 0},
        {"Median (ms)", "time_ms", 4, 0},
    };
    json_t *const all = json_array();
    lsi_rows_append(all, "all-reduce");
    lsi_rows_append(all, "all-reduce-shared");
    lsi_rows_append(all, "all-reduce-private");
    lsi_document_paragraph(
        r->document,
        "The table shows in-place all-reduces (f32, sum), timed after five "
        "warm-up runs. The time of a run is that of its slowest rank. With "
        "more ranks than CPUs, ranks share CPUs.");
    LSI_STUDY_TABLE(r, all, columns);
    LSI_STUDY_PEERS(r, "all-reduce", others);
    lsi_study_plot p = lsi_study_plot_new(
        "all-reduce", "Bus bandwidth of f32 all-reduce by vector size, with "
                      "two ranks on one machine");
    p.plot.x =
        (lsi_plot_axis){.label = "size (bytes)", .log = true, .si = true};
    p.plot.y = (lsi_plot_axis){.label = "bus bandwidth (GB/s)", .log = true};
    add_bandwidth(&p, "all-reduce-shared", "Lockstep, shared buffers");
    add_bandwidth(&p, "all-reduce-private", "Lockstep, private buffers");
    add_peers(r, &p);
    add_ceiling(&p);
    lsi_study_draw(r, &p);
    json_decref(all);
}

const lsi_section lsi_section_all_reduce = {
    .id = "all-reduce",
    .title = "All-reduce on one machine",
    LSI_MEASUREMENTS(all_reduce),
    .write = write_all_reduce,
};

/* ---- ring ---------------------------------------------------------------- */

static const lsi_measurement ring[] = {
    {"ring", LSI_ROWS_JSON,
     "bench ring -n 1,2,4,8 --iterations 10 --elements 0,1000,100000",
     "bench ring", 10, 120, false},
};

static void answer_ring(lsi_study *r, const json_t *file)
{
    size_t i;
    const json_t *row;
    double worst = 0;
    bool same = true;
    json_array_foreach(json_object_get(file, "rows"), i, row)
    {
        worst = fmax(worst, lsi_number_at(row, "error_ulp"));
        same = same && json_is_true(lsi_at(row, "same_bits"));
    }
    if (i > 0)
        lsi_document_paragraph(
            r->document,
            "The results differ by at most %.2f units of 2⁻²³ from the mean in "
            "f64. All ranks compute the same bits in %s.",
            worst, same ? "every row" : "only some of the rows");
}

static void write_ring(lsi_study *r)
{
    static const lsi_study_column columns[] = {
        {"Ranks", "ranks", 0, 0},
        {"Elements", "elements", 0, 0},
        {"Algorithm", "algorithm", 0, 0},
        {"Median (ms)", "time_us.median", 4, 1e-3},
        {"Max (ms)", "time_us.max", 4, 1e-3},
        {"Memory (bytes)", "memory_bytes", 0, 0},
        {"Error (2⁻²³)", "error_ulp", 2, 0},
        {"Same bits", "same_bits", 0, 0},
    };
    json_t *const file = lsi_rows_of("ring");
    lsi_document_paragraph(r->document,
                           "The table compares three algorithms that compute "
                           "the mean over all ranks: the ring, the butterfly, "
                           "and the one that the library selects.");
    LSI_STUDY_TABLE(r, json_object_get(file, "rows"), columns);
    answer_ring(r, file);
    json_decref(file);
}

const lsi_section lsi_section_ring = {
    .id = "ring",
    .title = "Ring and butterfly",
    LSI_MEASUREMENTS(ring),
    .write = write_ring,
};

/* ---- batch normalisation ------------------------------------------------- */

static const lsi_measurement batch_norm[] = {
    {"sync-batch-norm", LSI_ROWS_JSON,
     "bench sync-batch-norm -n 2 --iterations 300",
     "bench sync-batch-norm -n 2 --iterations 10000", 2, 20, false},
};

/* The row of `gathered` with the sizes of a row of `fused`. */
static const json_t *usual_like(const json_t *file, const json_t *ours)
{
    char same[96];
    if (strcmp(lsi_string_at(ours, "implementation"), "fused") != 0)
        return NULL;
    snprintf(same, sizeof(same),
             "implementation=gathered features=%.0f batch=%.0f",
             lsi_number_at(ours, "features"), lsi_number_at(ours, "batch"));
    return lsi_row_where(file, same);
}

/* Rows without saved_bytes do not count. */
static void answer_norm_memory(lsi_study *r, const json_t *file)
{
    size_t i;
    const json_t *row;
    double saved = 0;
    int n = 0, equal = 0;
    json_array_foreach(json_object_get(file, "rows"), i, row)
    {
        const json_t *const usual = usual_like(file, row);
        const double bytes = lsi_number_at(row, "peak_bytes");
        const double gain = lsi_number_at(usual, "peak_bytes") / bytes;
        if (!isfinite(gain) || !isfinite(lsi_number_at(row, "saved_bytes")) ||
            !isfinite(lsi_number_at(usual, "saved_bytes")))
            continue;
        n++;
        equal += gain == 1 && lsi_number_at(row, "saved_bytes") ==
                                  lsi_number_at(usual, "saved_bytes");
        saved += gain;
    }
    if (n > 0 && equal == n)
        lsi_document_paragraph(
            r->document,
            "fused and gathered use the same memory in all %d pairs of rows, "
            "because they differ only in their messages. For backward, both "
            "save the output, and a mean and a deviation per feature. At the "
            "peak, both also hold the gradients of the output and of the "
            "input. Memory is counted in a separate pass.",
            n);
    else if (n > 0)
        lsi_document_paragraph(
            r->document,
            "fused and gathered use the same memory in %d of %d pairs of rows. "
            "On average, gathered uses %.3f times the memory of fused. Memory "
            "is counted in a separate pass.",
            equal, n, saved / n);
}

static void answer_batch_norm(lsi_study *r, const json_t *file)
{
    size_t i;
    const json_t *row;
    double gain = 0, least = INFINITY, spread = 0;
    int n = 0;
    json_array_foreach(json_object_get(file, "rows"), i, row)
    {
        const double median = lsi_number_at(row, "time_us.median");
        spread = fmax(spread, lsi_number_at(row, "time_us.p99") / median);
        const double ratio =
            lsi_number_at(usual_like(file, row), "time_us.median") / median;
        if (!isfinite(ratio))
            continue;
        gain += ratio;
        least = fmin(least, ratio);
        n++;
    }
    if (n > 0)
        lsi_document_paragraph(
            r->document,
            "Batch normalisation with one collective per pass (fused) is on "
            "average %.2f times as fast as the usual implementation "
            "(gathered). Its smallest gain is %.2f times. In the row with the "
            "largest variation, the 99th percentile of the time is %.1f times "
            "the median. Gradients differ from a calculation in double "
            "precision by less than 10⁻³.",
            gain / n, least, spread);
    answer_norm_memory(r, file);
}

static void draw_batch_norm(lsi_study *r, const json_t *file)
{
    static const char *const names[] = {"fused", "gathered"};
    lsi_study_plot p = lsi_study_plot_new(
        "sync-batch-norm", "Batch normalisation over two ranks, forward and "
                           "backward, 64 rows per rank");
    p.plot.x = (lsi_plot_axis){.label = "features", .log = true, .si = true};
    p.plot.y = (lsi_plot_axis){.label = "median time (ms)", .log = true};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char condition[64];
        snprintf(condition, sizeof(condition), "implementation=%s batch=64",
                 names[i]);
        json_t *const rows = lsi_rows_where(file, condition);
        lsi_study_series *const s =
            lsi_study_plot_series(&p, LSI_PLOT_LINES_POINTS, "%s", names[i]);
        for (size_t k = 0; k < json_array_size(rows); k++)
            lsi_study_point(
                s, lsi_number_at(json_array_get(rows, k), "features"),
                lsi_number_at(json_array_get(rows, k), "time_us.median") *
                    1e-3);
        json_decref(rows);
    }
    json_t *const peers =
        lsi_rows_where(r->peers, "what=sync-batch-norm batch=64");
    lsi_study_series *const other =
        lsi_study_plot_series(&p, LSI_PLOT_LINES_POINTS, "%s",
                              lsi_string_at(json_array_get(peers, 0), "peer"));
    other->dashed = true;
    lsi_study_points(other, peers, "features", "time_ms");
    json_decref(peers);
    lsi_study_draw(r, &p);
}

static void write_batch_norm(lsi_study *r)
{
    static const lsi_study_column columns[] = {
        {"Implementation", "implementation", 0, 0},
        {"Features", "features", 0, 0},
        {"Batch", "batch", 0, 0},
        {"Ranks", "ranks", 0, 0},
        {"Median (ms)", "time_us.median", 4, 1e-3},
        {"Mean (ms)", "time_us.mean", 4, 1e-3},
        {"99th percentile (ms)", "time_us.p99", 4, 1e-3},
        {"Saved for backward (bytes)", "saved_bytes", 0, 0},
        {"Peak memory, forward and backward (bytes)", "peak_bytes", 0, 0},
    };
    static const lsi_study_column others[] = {
        {"Program", "peer", 0, 0},        {"Features", "features", 0, 0},
        {"Batch", "batch", 0, 0},         {"Ranks", "ranks", 0, 0},
        {"Median (ms)", "time_ms", 4, 0},
    };
    json_t *const file = lsi_rows_of("sync-batch-norm");
    LSI_STUDY_TABLE(r, json_object_get(file, "rows"), columns);
    answer_batch_norm(r, file);
    draw_batch_norm(r, file);
    LSI_STUDY_PEERS(r, "sync-batch-norm", others);
    json_decref(file);
}

const lsi_section lsi_section_batch_norm = {
    .id = "sync-batch-norm",
    .title = "Synchronised batch normalisation",
    LSI_MEASUREMENTS(batch_norm),
    .write = write_batch_norm,
};

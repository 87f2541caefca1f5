/*
 * Attention over lengths: time and memory, naive and in one pass.
 */
#include <math.h>
#include <stdio.h>

#include "cli/commands/report/report.h"

static const lsi_measurement measurements[] = {
    {"attention", LSI_ROWS_JSON,
     "bench attention -l 256,512,1024,2048 --head-size 64 --iterations 20 "
     "--seconds 0.3",
     "bench attention", 12, 900, false},
    {"flash", LSI_ROWS_JSON,
     "bench flash -l 128,512,2048,4096 --head-size 64 --dtype f32 --iterations "
     "20 "
     "--seconds 0.3",
     "bench flash", 10, 2400, false},
};

static const lsi_study_column columns[] = {
    {"Method", "impl", 0, 0},
    {"Type", "dtype", 0, 0},
    {"Batch", "batch", 0, 0},
    {"Length", "length", 0, 0},
    {"d", "d", 0, 0},
    {"Causal", "causal", 0, 0},
    {"Forward (ms)", "forward_ms.median", 3, 0},
    {"Backward (ms)", "backward_ms.median", 3, 0},
    {"Forward (GFLOP/s)", "gflops_forward", 1, 0},
    {"Memory before backward (MB)", "live_bytes", 1, 1e-6},
    {"Peak without inputs and outputs (MB)", "peak_bytes", 1, 1e-6},
    {"Status", "status", 0, 0},
};

static void add_series(lsi_study_plot *p, const json_t *rows, const char *impl,
                       const char *what, const char *y)
{
    char condition[64];
    snprintf(condition, sizeof(condition), "impl=%s d=64 dtype=f32", impl);
    json_t *const some = lsi_rows_where(rows, condition);
    lsi_study_points(
        lsi_study_plot_series(p, LSI_PLOT_LINES_POINTS, "%s, %s", impl, what),
        some, "length", y);
    json_decref(some);
}

static void add_peers(lsi_study *r, lsi_study_plot *p)
{
    json_t *const rows = lsi_study_peers(r, "attention");
    lsi_study_series *const s =
        lsi_study_plot_series(p, LSI_PLOT_LINES_POINTS, "%s, forward",
                              lsi_string_at(json_array_get(rows, 0), "peer"));
    s->dashed = true;
    lsi_study_points(s, rows, "length", "forward_ms");
    json_decref(rows);
}

static void draw(lsi_study *r, const json_t *rows)
{
    lsi_study_plot time = lsi_study_plot_new(
        "attention-time",
        "Time of attention by sequence length (f32, head size 64)");
    time.plot.x = (lsi_plot_axis){
        .label = "sequence length (tokens)", .log = true, .si = true};
    time.plot.y = (lsi_plot_axis){.label = "time (ms)", .log = true};
    add_series(&time, rows, "flash", "forward", "forward_ms.median");
    add_series(&time, rows, "flash", "backward", "backward_ms.median");
    add_series(&time, rows, "naive", "forward", "forward_ms.median");
    add_series(&time, rows, "naive", "backward", "backward_ms.median");
    add_peers(r, &time);
    lsi_study_draw(r, &time);
    lsi_study_plot memory = lsi_study_plot_new(
        "attention-memory", "Memory of attention by sequence length, without "
                            "inputs and outputs (f32, head size 64)");
    memory.plot.x = time.plot.x;
    memory.plot.y = (lsi_plot_axis){
        .label = "peak memory (bytes)", .log = true, .si = true};
    add_series(&memory, rows, "flash", "peak", "peak_bytes");
    add_series(&memory, rows, "naive", "peak", "peak_bytes");
    add_series(&memory, rows, "flash", "saved for backward", "saved_bytes");
    add_series(&memory, rows, "naive", "saved for backward", "saved_bytes");
    lsi_study_draw(r, &memory);
}

/* The longest length that both methods have. */
static const json_t *longest(const json_t *rows, const json_t **naive)
{
    size_t i;
    const json_t *row, *best = NULL;
    json_array_foreach(json_object_get(rows, "rows"), i, row)
    {
        char same[96];
        snprintf(same, sizeof(same), "impl=naive dtype=f32 length=%.0f d=%.0f",
                 lsi_number_at(row, "length"), lsi_number_at(row, "d"));
        const json_t *const other = lsi_row_where(rows, same);
        const bool fits = isfinite(lsi_number_at(row, "forward_ms.median")) &&
                          isfinite(lsi_number_at(other, "forward_ms.median"));
        if (!fits || lsi_row_where(rows, same) == row)
            continue;
        if (best == NULL ||
            lsi_number_at(row, "length") >= lsi_number_at(best, "length")) {
            best = row;
            *naive = other;
        }
    }
    return best;
}

static void answer(lsi_study *r, const json_t *rows)
{
    const json_t *naive = NULL;
    const json_t *const flash = longest(rows, &naive);
    if (flash == NULL)
        return;
    lsi_document_paragraph(
        r->document,
        "At length %.0f and head size %.0f, flash saves %.3f MB for backward "
        "and naive saves %.1f MB. naive stores batch × length² probabilities "
        "in f32 (%.1f MB); the memory of flash grows only linearly with the "
        "length. At this length, the forward pass of flash is %.2f times as "
        "fast as that of naive. The backward pass of flash is %.2f times as "
        "fast.",
        lsi_number_at(flash, "length"), lsi_number_at(flash, "d"),
        lsi_number_at(flash, "saved_bytes") * 1e-6,
        lsi_number_at(naive, "saved_bytes") * 1e-6,
        lsi_number_at(flash, "batch") * 4e-6 *
            pow(lsi_number_at(flash, "length"), 2),
        lsi_number_at(naive, "forward_ms.median") /
            lsi_number_at(flash, "forward_ms.median"),
        lsi_number_at(naive, "backward_ms.median") /
            lsi_number_at(flash, "backward_ms.median"));
}

static void write_section(lsi_study *r)
{
    json_t *const plain = lsi_rows_of("attention");
    json_t *const flash = lsi_rows_of("flash");
    LSI_STUDY_TABLE(r, json_object_get(plain, "rows"), columns);
    answer(r, plain);
    draw(r, plain);
    if (flash != NULL) {
        lsi_document_heading(r->document, 3, "Causal, batch 1");
        LSI_STUDY_TABLE(r, json_object_get(flash, "rows"), columns);
    }
    json_decref(plain);
    json_decref(flash);
}

const lsi_section lsi_section_attention = {
    .id = "attention",
    .title = "Attention",
    LSI_MEASUREMENTS(measurements),
    .write = write_section,
};

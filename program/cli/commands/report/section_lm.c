/* Steps of language models: the effect of warm-up, and the gain of bf16. */
#include <math.h>
#include <stdio.h>

#include "cli/commands/report/report.h"

static const lsi_study_column columns[] = {
    {"Model", "size", 0, 0},
    {"Context", "context", 0, 0},
    {"Type", "dtype", 0, 0},
    {"Warm-up", "warmup", 0, 0},
    {"Steps", "iterations", 0, 0},
    {"Forward (ms)", "forward_ms.mean", 1, 0},
    {"±", "forward_ms.std", 1, 0},
    {"Backward (ms)", "backward_ms.mean", 1, 0},
    {"±", "backward_ms.std", 1, 0},
    {"Optimizer (ms)", "optimizer_ms.mean", 1, 0},
    {"±", "optimizer_ms.std", 1, 0},
    {"Peak (MB)", "peak_bytes", 0, 1e-6},
    {"Status", "status", 0, 0},
};

/* ---- warm-up ------------------------------------------------------------- */

/* Each in a separate process, so that none profits from another's warm-up. */
static const lsi_measurement warmup[] = {
    {"lm-warmup-5", LSI_ROWS_JSON, "bench lm --size tiny -w 5 --iterations 5",
     "bench lm --size small,medium,large -w 5", 3, 700, false},
    {"lm-warmup-2", LSI_ROWS_JSON, "bench lm --size tiny -w 2 --iterations 5",
     "bench lm --size small,medium,large -w 2", 3, 600, false},
    {"lm-warmup-1", LSI_ROWS_JSON, "bench lm --size tiny -w 1 --iterations 5",
     "bench lm --size small,medium,large -w 1", 3, 560, false},
    {"lm-warmup-0", LSI_ROWS_JSON, "bench lm --size tiny -w 0 --iterations 5",
     "bench lm --size small,medium,large -w 0", 3, 520, false},
    {"lm-first", LSI_ROWS_JSON, "bench lm --size tiny -w 0 --iterations 1",
     "bench lm --size small,medium,large -w 0 --iterations 1", 2, 60, false},
};

static void answer_warmup(lsi_study *r, const json_t *first, const json_t *warm)
{
    static const char *const names[] = {"forward", "backward", "the optimizer"};
    static const char *const paths[] = {
        "forward_ms.median", "backward_ms.median", "optimizer_ms.median"};
    const double cold = lsi_number_at(first, "step_ms.median");
    const double usual = lsi_number_at(warm, "step_ms.median");
    double parts[3];
    int most = 0;
    for (int i = 0; i < 3; i++) {
        parts[i] =
            lsi_number_at(first, paths[i]) - lsi_number_at(warm, paths[i]);
        most = parts[i] > parts[most] ? i : most;
    }
    if (!isfinite(cold) || !isfinite(usual))
        return;
    lsi_document_paragraph(
        r->document,
        "With the model %s, the first step of a process takes %.1f ms. After "
        "%.0f warm-up steps, a step takes %.1f ms, so the first step takes "
        "%.2f times as long. Most of the difference of %.1f ms is in %s: "
        "forward takes %.1f ms more, backward %.1f ms more and the optimizer "
        "%.1f ms more. The first step plans the matrix products of each shape, "
        "and accesses memory pages for the first time.",
        lsi_string_at(first, "size"), cold, lsi_number_at(warm, "warmup"),
        usual, cold / usual, cold - usual, names[most], parts[0], parts[1],
        parts[2]);
}

static void write_spread(lsi_study *r, const json_t *rows)
{
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *const row = json_array_get(rows, i);
        const double mean = lsi_number_at(row, "step_ms.mean");
        const double std = lsi_number_at(row, "step_ms.std");
        if (isfinite(mean) && isfinite(std))
            lsi_document_item(r->document,
                              "%s, %.0f warm-up steps: %.1f ms per step, with "
                              "a standard deviation of %.1f%%",
                              lsi_string_at(row, "size"),
                              lsi_number_at(row, "warmup"), mean,
                              100 * std / mean);
    }
}

static void write_warmup(lsi_study *r)
{
    json_t *const all = json_array();
    lsi_rows_append(all, "lm-warmup-5");
    lsi_rows_append(all, "lm-warmup-2");
    lsi_rows_append(all, "lm-warmup-1");
    lsi_rows_append(all, "lm-warmup-0");
    lsi_document_paragraph(r->document,
                           "A step is forward with the loss, backward and "
                           "AdamW, on random tokens. Each number of warm-up "
                           "steps is measured in a separate process.");
    LSI_STUDY_TABLE(r, all, columns);
    json_t *const first = lsi_rows_of("lm-first");
    json_t *const warm = lsi_rows_of("lm-warmup-5");
    answer_warmup(r, lsi_row_where(first, ""), lsi_row_where(warm, ""));
    write_spread(r, all);
    json_decref(first);
    json_decref(warm);
    json_decref(all);
}

const lsi_section lsi_section_warmup = {
    .id = "warmup",
    .title = "Step time of a language model after 0 to 5 warm-up steps",
    LSI_MEASUREMENTS(warmup),
    .write = write_warmup,
};

/* ---- types --------------------------------------------------------------- */

static const lsi_measurement types[] = {
    {"lm-f32", LSI_ROWS_JSON, "bench lm --size tiny,small -w 1 --iterations 3",
     "bench lm --size small,medium,large,xl,2.7B,10B -w 5", 15, 1200, false},
    {"lm-bf16", LSI_ROWS_JSON,
     "bench lm --size tiny,small --dtype bf16 -w 1 --iterations 3",
     "bench lm --size small,medium,large,xl,2.7B,10B --dtype bf16 -w 5", 12,
     700, false},
    {"mixed-precision", LSI_ROWS_OUTPUT, NULL, "demo mixed-precision", 1, 1,
     false},
};

/* Whether the gain grows with the models, which come in order of size. */
static void answer_types(lsi_study *r, const json_t *f32, const json_t *bf16)
{
    size_t i;
    const json_t *row;
    double before = NAN;
    json_array_foreach(json_object_get(f32, "rows"), i, row)
    {
        char same[96];
        snprintf(same, sizeof(same), "size=%s", lsi_string_at(row, "size"));
        const double gain =
            lsi_number_at(row, "step_ms.median") /
            lsi_number_at(lsi_row_where(bf16, same), "step_ms.median");
        if (!isfinite(gain))
            continue;
        const char *trend = "";
        if (isfinite(before))
            trend = gain > before
                        ? ", a larger gain than with the next smaller model"
                        : ", a smaller gain than with the next smaller model";
        lsi_document_item(r->document,
                          "%s: a step in bf16 is %.2f times as fast as one in "
                          "f32%s",
                          lsi_string_at(row, "size"), gain, trend);
        before = gain;
    }
    if (!isfinite(before))
        lsi_document_paragraph(r->document,
                               "The gain from bf16 is unknown, because no "
                               "model was measured in both f32 and bf16.");
}

static void write_types(lsi_study *r)
{
    static const lsi_study_column others[] = {
        {"Program", "peer", 0, 0},
        {"Model", "size", 0, 0},
        {"Type", "dtype", 0, 0},
        {"Threads", "threads", 0, 0},
        {"Forward (ms)", "forward_ms", 1, 0},
        {"Backward (ms)", "backward_ms", 1, 0},
        {"Step (ms)", "step_ms", 1, 0},
    };
    json_t *const f32 = lsi_rows_of("lm-f32");
    json_t *const bf16 = lsi_rows_of("lm-bf16");
    json_t *const all = json_array();
    lsi_rows_append(all, "lm-f32");
    lsi_rows_append(all, "lm-bf16");
    lsi_document_paragraph(
        r->document,
        "The table compares matrix products with inputs in f32 and in bf16. "
        "Parameters, gradients and sums are f32 in both cases. If a model does "
        "not fit in memory, its status is 'out of memory'.");
    LSI_STUDY_TABLE(r, all, columns);
    answer_types(r, f32, bf16);
    LSI_STUDY_PEERS(r, "lm", others);
    lsi_study_output(r, "Sums in half precision", "mixed-precision");
    json_decref(all);
    json_decref(f32);
    json_decref(bf16);
}

const lsi_section lsi_section_types = {
    .id = "types",
    .title = "f32 and bf16",
    LSI_MEASUREMENTS(types),
    .write = write_types,
};

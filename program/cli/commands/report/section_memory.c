/* The holders of a language model's memory, over its size and in time. */
#include <math.h>
#include <stdio.h>

#include "cli/commands/report/report.h"

static const lsi_measurement measurements[] = {
    {"memory", LSI_ROWS_JSON,
     "memory --size tiny,small --context 64,128 --batch-size 2 --dtype "
     "f32,bf16 --mode forward,step",
     "memory --size small,medium,large,xl,2.7B --context 128,256,512 --dtype "
     "f32,bf16 --mode forward,step",
     40, 1800, false},
};

enum { LARGEST = 6 };

#define MIB (1.0 / 1048576) /* of a byte */

static const char *const kinds[] = {"parameters",      "gradients",
                                    "optimizer state", "activations",
                                    "workspace",       "kept by pools"};

/* The last row of that mode that has been measured whole. */
static const json_t *last_of(const json_t *file, const char *mode,
                             const json_t **detail)
{
    char condition[64];
    snprintf(condition, sizeof(condition), "mode=%s status=ok", mode);
    json_t *const rows = lsi_rows_where(file, condition);
    const json_t *const row = json_array_get(rows, json_array_size(rows) - 1);
    const json_t *const all = json_object_get(file, "rows");
    *detail = NULL;
    for (size_t i = 0; i < json_array_size(all); i++)
        if (json_array_get(all, i) == row)
            *detail = json_array_get(json_object_get(file, "details"), i);
    json_decref(rows); /* the file has them, too */
    return row;
}

static void answer_residual(lsi_study *r, const json_t *row,
                            const json_t *detail)
{
    const double formula = lsi_number_at(detail, "residual.formula_bytes");
    const double recorded = lsi_number_at(detail, "residual.recorded_bytes");
    if (!isfinite(formula) || !isfinite(recorded))
        return;
    lsi_document_paragraph(
        r->document,
        "In the model %s with %.0f sequences of %.0f tokens, a tensor of the "
        "residual stream takes %.0f bytes by the formula 4 bytes x batch x "
        "context x d_model. In the recording, this tensor takes %.0f bytes. At "
        "the peak, %.0f such tensors are in use.",
        lsi_string_at(row, "size"), lsi_number_at(row, "batch"),
        lsi_number_at(row, "context"), formula, recorded,
        lsi_number_at(detail, "residual.live_at_peak"));
}

static void answer_largest(lsi_study *r, const json_t *detail)
{
    const json_t *const largest = json_object_get(detail, "largest");
    size_t i;
    const json_t *block;
    if (json_array_size(largest) == 0)
        return;
    lsi_document_paragraph(
        r->document, "The largest blocks at the peak, with the source line of "
                     "the allocation if the program has debug information:");
    json_array_foreach(largest, i, block)
    {
        if (i >= LARGEST)
            break;
        const char *const what = lsi_string_at(block, "what");
        const char *const layer = lsi_string_at(block, "layer");
        const char *const line = lsi_string_at(block, "line");
        lsi_document_item(
            r->document, "%.0f x %.2f MiB: %s%s%s%s%s",
            lsi_number_at(block, "alike"), lsi_number_at(block, "bytes") * MIB,
            what[0] != '\0' ? what : "a tensor", layer[0] != '\0' ? " of " : "",
            layer, line[0] != '\0' ? ", allocated in " : "", line);
    }
}

/*
 * Draws every n-th point, if there are more than a plot takes. The memory at
 * one point stays until the next.
 */
static void draw_course(lsi_study *r, const json_t *detail)
{
    const json_t *const course = json_object_get(detail, "timeline");
    const size_t n = json_array_size(course);
    const size_t step = 2 * n / LSI_POINTS_MOST + 1;
    lsi_study_plot p =
        lsi_study_plot_new("memory", "Memory in use during a run of two steps");
    p.plot.stacked = true;
    p.plot.x = (lsi_plot_axis){.label = "time (ms)"};
    p.plot.y = (lsi_plot_axis){.label = "memory (MiB)", .from_zero = true};
    for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); k++) {
        lsi_study_series *const s =
            lsi_study_plot_series(&p, LSI_PLOT_FILLED, "%s", kinds[k]);
        for (size_t i = 0; i < n; i += step) {
            const json_t *const at = json_array_get(course, i);
            const json_t *const next = json_array_get(course, i + step);
            const double bytes =
                json_number_value(json_object_get(at, kinds[k]));
            lsi_study_point(s, lsi_number_at(at, "ms"), bytes * MIB);
            if (next != NULL)
                lsi_study_point(s, lsi_number_at(next, "ms"), bytes * MIB);
        }
    }
    lsi_study_draw(r, &p);
}

static void write_memory(lsi_study *r)
{
    static const lsi_study_column columns[] = {
        {"Model", "size", 0, 0},
        {"Context", "context", 0, 0},
        {"Batch", "batch", 0, 0},
        {"Type", "dtype", 0, 0},
        {"Mode", "mode", 0, 0},
        {"Peak (MiB)", "peak_bytes", 1, MIB},
        {"Parameters (MiB)", "parameters_mib", 1, 0},
        {"Gradients (MiB)", "gradients_mib", 1, 0},
        {"State (MiB)", "state_mib", 1, 0},
        {"Activations (MiB)", "activations_mib", 1, 0},
        {"Memory kept for reuse (MiB)", "kept_mib", 1, 0},
        {"Share of the growth in resident memory (%)", "resident_percent", 1,
         0},
        {"Status", "status", 0, 0},
    };
    json_t *const file = lsi_rows_of("memory");
    const json_t *detail;
    const json_t *const row = last_of(file, "step", &detail);
    lsi_document_paragraph(
        r->document, "The table shows the peak memory of a forward pass that "
                     "saves nothing for backward, and of a whole step with "
                     "AdamW. Each case runs in a separate process.");
    LSI_STUDY_TABLE(r, json_object_get(file, "rows"), columns);
    if (detail != NULL) {
        answer_residual(r, row, detail);
        answer_largest(r, detail);
        draw_course(r, detail);
    }
    json_decref(file);
}

const lsi_section lsi_section_memory = {
    .id = "memory",
    .title = "Memory by kind",
    LSI_MEASUREMENTS(measurements),
    .write = write_memory,
};

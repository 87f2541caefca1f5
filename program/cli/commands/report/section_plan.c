/* Predictions: for this machine, next to measurements, and beyond it. */
#include <math.h>

#include "cli/commands/report/report.h"

static const lsi_measurement measurements[] = {
    {"plan-verify", LSI_ROWS_JSON,
     "plan --verify --force --size tiny --batch-size 2 --context 64",
     "plan --verify --force", 60, 400, false},
    {"plan-sweep", LSI_ROWS_JSON, NULL,
     "plan --size 10B --strategy zero1 --bucket-mb 25 --sweep ranks=1..4096 "
     "--ranks-per-node 8 --tflops 100 --device-gbps 1000 --link-gbps 50 "
     "--link-us 3",
     1, 1, false},
};

/* The largest number of a column, whatever its sign. */
static double most_of(const json_t *rows, const char *column)
{
    double most = NAN;
    for (size_t i = 0; i < json_array_size(rows); i++)
        most = fmax(most, fabs(lsi_number_at(json_array_get(rows, i), column)));
    return most;
}

static void draw_sweep(lsi_study *r, const json_t *rows)
{
    lsi_study_plot p =
        lsi_study_plot_new("plan", "Predicted efficiency (share of computation "
                                   "in a step) by number of ranks");
    p.plot.x = (lsi_plot_axis){.label = "ranks", .log = true, .si = true};
    p.plot.y = (lsi_plot_axis){.label = "efficiency", .from_zero = true};
    lsi_study_points(
        lsi_study_plot_series(&p, LSI_PLOT_LINES_POINTS, "predicted"), rows,
        "ranks", "efficiency");
    lsi_study_draw(r, &p);
}

static void write_plan(lsi_study *r)
{
    static const lsi_study_column verified[] = {
        {"Model", "model", 0, 0},
        {"Ranks", "ranks", 0, 0},
        {"Strategy", "strategy", 0, 0},
        {"Predicted (s)", "predicted_seconds", 4, 0},
        {"Measured (s)", "measured_seconds", 4, 0},
        {"Error (%)", "seconds_error_percent", 1, 0},
        {"Predicted (GB)", "predicted_gb", 3, 0},
        {"Measured (GB)", "measured_gb", 3, 0},
        {"Error (%)", "memory_error_percent", 1, 0},
    };
    static const lsi_study_column planned[] = {
        {"Ranks", "ranks", 0, 0},
        {"Nodes", "nodes", 0, 0},
        {"Memory per rank (GB)", "total_bytes", 2, 1e-9},
        {"Step (s)", "step_seconds", 4, 0},
        {"Exposed communication (s)", "exposed_seconds", 4, 0},
        {"Tokens/s", "tokens_per_second", 0, 0},
        {"Efficiency", "efficiency", 3, 0},
    };
    json_t *const here = lsi_rows_of("plan-verify");
    json_t *const sweep = lsi_rows_of("plan-sweep");
    const json_t *const rows = json_object_get(here, "rows");
    LSI_STUDY_TABLE(r, rows, verified);
    if (json_array_size(rows) > 0)
        lsi_document_paragraph(
            r->document,
            "Predicted times differ from the measured times by at most %.1f%%, "
            "and predicted memory by at most %.1f%%.",
            most_of(rows, "seconds_error_percent"),
            most_of(rows, "memory_error_percent"));
    if (sweep != NULL) {
        lsi_document_paragraph(
            r->document, "For a larger cluster, `lockstep plan` predicts:");
        LSI_STUDY_TABLE(r, json_object_get(sweep, "rows"), planned);
        draw_sweep(r, json_object_get(sweep, "rows"));
    }
    json_decref(sweep);
    json_decref(here);
}

const lsi_section lsi_section_plan = {
    .id = "plan",
    .title = "Predictions compared with measurements",
    LSI_MEASUREMENTS(measurements),
    .write = write_plan,
};

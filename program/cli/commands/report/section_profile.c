/*
 * The parts of a step's time, and two timelines: with communication hidden
 * behind computation and without.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/commands/machine_peaks.h"
#include "cli/commands/report/report.h"

/* ---- kernels ------------------------------------------------------------- */

static const lsi_measurement profile[] = {
    {"traced-lm", LSI_ROWS_JSON,
     "bench lm --size tiny -w 1 --iterations 3 --trace traces/lm",
     "bench lm --size small -w 2 --iterations 5 --trace traces/lm", 2, 30,
     false},
    {"profile", LSI_ROWS_JSON, NULL, "profile traces/lm --force", 6, 6, false},
    {"traced-attention", LSI_ROWS_JSON,
     "bench attention --impl naive -l 512 --head-size 64 --iterations 5 "
     "--trace "
     "traces/attention",
     "bench attention --impl naive -l 1024 --head-size 64 --iterations 20 "
     "--trace "
     "traces/attention",
     2, 10, false},
    {"profile-attention", LSI_ROWS_JSON, NULL, "profile traces/attention", 1, 1,
     false},
};

/* Whether a sentence only repeats the one before, as with a single rank. */
static bool is_repeated(const char *sentence, const char *before)
{
    const size_t n = strlen(sentence);
    return n == 0 || strncmp(sentence, before, n - 1) == 0;
}

/* The answers of profile in their order. */
static void put_answers(lsi_study *r, const json_t *file, const char *only)
{
    const char *key;
    json_t *value;
    const char *before = "";
    json_object_foreach(json_object_get(file, "answers"), key, value)
    {
        const char *const text = json_string_value(value);
        if (text == NULL || is_repeated(text, before) ||
            (only == NULL ? strcmp(key, "attention") == 0
                          : strcmp(key, only) != 0))
            continue;
        lsi_document_item(r->document, "%s", text);
        before = text;
    }
}

static void write_profile(lsi_study *r)
{
    static const lsi_study_column columns[] = {
        {"Kernel", "kernel", 0, 0},
        {"Calls", "calls", 0, 0},
        {"Total (ms)", "total_ms", 2, 0},
        {"Mean (µs)", "mean_us", 1, 0},
        {"Share (%)", "share", 1, 0},
        {"GFLOP/s", "gflops", 1, 0},
        {"GB/s", "gb_per_s", 1, 0},
        {"Share of the roofline (%)", "of_roofline", 0, 0},
    };
    json_t *const file = lsi_rows_of("profile");
    json_t *const attention = lsi_rows_of("profile-attention");
    if (isfinite(lsi_number_at(file, "peaks.f32_gflops")))
        lsi_document_paragraph(
            r->document,
            "The profile covers %.0f steps of %.2f ms on average. With %.0f "
            "threads, the measured limits of this machine are %.1f GFLOP/s in "
            "f32 and %.1f GB/s over %d MiB.",
            lsi_number_at(file, "steps"), lsi_number_at(file, "step_ms"),
            lsi_number_at(file, "peaks.threads"),
            lsi_number_at(file, "peaks.f32_gflops"),
            lsi_number_at(file, "peaks.gb_per_s"), LSI_PEAKS_MIB);
    LSI_STUDY_TABLE(r, json_object_get(file, "rows"), columns);
    put_answers(r, file, NULL);
    put_answers(r, attention, "attention");
    lsi_study_attention_block(r, "traces/lm");
    json_decref(file);
    json_decref(attention);
}

const lsi_section lsi_section_profile = {
    .id = "profile",
    .title = "Time of a step by kernel",
    LSI_MEASUREMENTS(profile),
    .write = write_profile,
};

/* ---- timelines ----------------------------------------------------------- */

static const lsi_measurement timelines[] = {
    {"traced-flat", LSI_ROWS_JSON,
     "bench ddp --size tiny -n 2 -w 1 --iterations 3 --strategy flat "
     "--trace traces/flat",
     "bench ddp --size small -n 2 -w 2 --iterations 5 --strategy flat "
     "--trace traces/flat",
     3, 30, false},
    {"profile-flat", LSI_ROWS_JSON, NULL, "profile traces/flat", 1, 1, false},
    {"traced-overlap", LSI_ROWS_JSON,
     "bench ddp --size tiny -n 2 -w 1 --iterations 3 --strategy overlap "
     "--trace traces/overlap",
     "bench ddp --size small -n 2 -w 2 --iterations 5 --strategy overlap "
     "--trace traces/overlap",
     3, 30, false},
    {"profile-overlap", LSI_ROWS_JSON, NULL, "profile traces/overlap", 1, 1,
     false},
    {"timeline-flat", LSI_ROWS_OUTPUT, NULL,
     "trace merge traces/flat --out traces/flat.json", 1, 1, false},
    {"timeline-overlap", LSI_ROWS_OUTPUT, NULL,
     "trace merge traces/overlap --out traces/overlap.json", 1, 1, false},
};

static bool is_event(const json_t *event, const char *category)
{
    return strcmp(lsi_string_at(event, "ph"), "X") == 0 &&
           strcmp(lsi_string_at(event, "cat"), category) == 0;
}

typedef struct moments {
    double begin, end;
} moments;

/*
 * The last step: rank 0's optimizer has ended the one before, and the last
 * optimizer of any rank ends it. Later events are meetings at the end of the
 * run.
 */
static moments last_step(const json_t *events)
{
    size_t i;
    const json_t *event;
    double mine = NAN;
    moments step = {.begin = NAN, .end = NAN};
    json_array_foreach(events, i, event)
    {
        if (!is_event(event, "phase") ||
            strcmp(lsi_string_at(event, "name"), "optimizer") != 0)
            continue;
        const double end =
            lsi_number_at(event, "ts") + lsi_number_at(event, "dur");
        step.end = fmax(step.end, end); /* fmax ignores NAN */
        if (lsi_number_at(event, "pid") != 0)
            continue;
        step.begin = mine;
        mine = end;
    }
    return step;
}

static void add_span(lsi_study_series *s, const json_t *event, moments step,
                     double row)
{
    const double from = lsi_number_at(event, "ts") - step.begin;
    if (s->n == LSI_POINTS_MOST || !(from >= 0 && step.begin + from < step.end))
        return;
    s->end[s->n] = (from + lsi_number_at(event, "dur")) * 1e-3;
    lsi_study_point(s, from * 1e-3, row);
}

/* Two rows a rank: its computation, and its collectives. */
static void add_spans(lsi_study_plot *p, const json_t *events)
{
    static const char *const phases[] = {"backward", "gradient sync",
                                         "optimizer"};
    enum { PHASES = sizeof(phases) / sizeof(phases[0]) };
    lsi_study_series *series[PHASES + 1], *forward;
    const moments step = last_step(events);
    size_t i;
    const json_t *event;
    /* Operations of other phases lie below those. */
    forward = lsi_study_plot_series(p, LSI_PLOT_SPANS, "forward");
    for (size_t k = 0; k < PHASES; k++)
        series[k] = lsi_study_plot_series(p, LSI_PLOT_SPANS, "%s", phases[k]);
    series[PHASES] = lsi_study_plot_series(p, LSI_PLOT_SPANS, "%s",
                                           "all-reduce and other collectives");
    json_array_foreach(events, i, event)
    {
        const double row = 2 * lsi_number_at(event, "pid");
        if (!(row >= 0 && row < 4))
            continue;
        if (is_event(event, "transfer"))
            add_span(series[PHASES], event, step, row + 1);
        if (is_event(event, "operation"))
            add_span(forward, event, step, row);
        for (size_t k = 0; k < PHASES; k++) {
            if (is_event(event, "phase") &&
                strcmp(lsi_string_at(event, "name"), phases[k]) == 0)
                add_span(series[k], event, step, row);
        }
    }
}

static void draw_timeline(lsi_study *r, const char *strategy)
{
    static const char *const rows[] = {"rank 0", "collectives of rank 0",
                                       "rank 1", "collectives of rank 1"};
    char path[64], name[64], caption[96];
    snprintf(path, sizeof(path), "traces/%s.json", strategy);
    json_t *const file = json_load_file(path, 0, NULL);
    if (file == NULL)
        return;
    snprintf(name, sizeof(name), "timeline-%s", strategy);
    snprintf(caption, sizeof(caption),
             "Timeline of one step on two ranks with the strategy %s",
             strategy);
    lsi_study_plot p = lsi_study_plot_new(name, caption);
    p.plot.height = 300;
    p.plot.x = (lsi_plot_axis){.label = "time since the step began (ms)"};
    p.plot.y = (lsi_plot_axis){.categories = rows, .n_categories = 4};
    add_spans(&p, json_object_get(file, "traceEvents"));
    lsi_study_draw(r, &p);
    json_decref(file);
}

static void write_overlap(lsi_study *r, const char *id, const char *strategy)
{
    json_t *const file = lsi_rows_of(id);
    const double overlap = lsi_number_at(file, "overlap");
    if (isfinite(overlap))
        lsi_document_item(r->document,
                          "%s: computation hides %.1f%% of communication; "
                          "during the other %.1f%%, ranks only wait",
                          strategy, 100 * overlap, 100 - 100 * overlap);
    put_answers(r, file, "slowest");
    json_decref(file);
}

static void write_timelines(lsi_study *r)
{
    lsi_document_paragraph(
        r->document,
        "The timelines show the same training with two strategies: flat "
        "reduces all gradients after backward, and overlap reduces all "
        "gradients during backward. `traces/flat.json` and "
        "`traces/overlap.json` are the complete timelines; ui.perfetto.dev can "
        "show these files.");
    write_overlap(r, "profile-flat", "flat");
    draw_timeline(r, "flat");
    write_overlap(r, "profile-overlap", "overlap");
    draw_timeline(r, "overlap");
}

const lsi_section lsi_section_timelines = {
    .id = "timelines",
    .title = "Timelines of flat and overlap",
    LSI_MEASUREMENTS(timelines),
    .write = write_timelines,
};

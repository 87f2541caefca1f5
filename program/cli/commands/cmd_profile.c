/* lockstep profile DIR: tables and answers from the recordings of the ranks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpus.h"
#include "base/error.h"
#include "cli/commands/machine_peaks.h"
#include "cli/commands/slow_layers.h"
#include "cli/frame/command.h"
#include "report/folder.h"
#include "report/paragraph.h"
#include "report/profile.h"
#include "report/result.h"
#include "report/table.h"

typedef struct args {
    const char *json, *range, *phase;
    int64_t rank, warmup, threads, top, attempt;
    bool measure, force, markdown;
} args;

#define ROW(...) LSI_OPTION(args, __VA_ARGS__)
static const lsi_option options[] = {
    ROW(range, STRING, "range", 0, "NAME", NULL,
        "count only time inside ranges, phases or operations with this name"),
    ROW(phase, STRING, "phase", 0, "NAME", NULL,
        "count only time inside this phase: forward, backward, optimizer, ..."),
    LSI_ATTEMPT_ROW(attempt),
    ROW(rank, INT, "rank", 0, "N", "-1", "count only this rank; -1: all ranks",
        .min = -1, .max = 1e6),
    ROW(warmup, INT, "warmup", 'w', "N", "-1",
        "leave out the first N steps; -1: the warm-up steps that the benchmark "
        "recorded or, if it recorded none, the first step",
        .min = -1, .max = 1e12),
    ROW(top, INT, "rows", 0, "N", "20",
        "largest number of kernels, and of slow layers, to print; --json "
        "writes all of them",
        .min = 1, .max = 1e6),
    ROW(threads, INT, "threads", 0, "N", "0",
        "number of threads for measuring the peak rates; 0: the threads of "
        "one rank, or CPUs / ranks if the trace does not contain them",
        .min = 0, .max = 1024),
    ROW(measure, BOOL, "measure", 0, NULL, NULL,
        "measure the peak rates of this machine again. Without this flag, "
        "rates of the last 30 days are used if the kernel and the set of CPUs "
        "are still the same. The rates are saved in " LSI_KEPT_PEAKS_HELP),
    ROW(force, BOOL, "force", 0, NULL, NULL,
        "measure peak rates even if other processes keep the machine busy. "
        "Without this flag, the column \"Of roofline\" is empty on a busy "
        "machine"),
    LSI_JSON_ROW(json),
    LSI_MARKDOWN_ROW(markdown),
};

static const lsi_column columns[] = {
    LSI_COLUMN(TEXT, "kernel", "Kernel"),
    LSI_COLUMN(INT, "calls", "Calls"),
    LSI_COLUMN(REAL, "total_ms", "Total", .unit = "ms", .decimals = 2),
    LSI_COLUMN(REAL, "mean_us", "Mean", .unit = "us", .decimals = 1),
    LSI_COLUMN(REAL, "share", "Share", .unit = "%", .decimals = 1),
    LSI_COLUMN(REAL, "gflops", "GFLOP/s", .decimals = 1),
    LSI_COLUMN(REAL, "gb_per_s", "GB/s", .decimals = 1),
    LSI_COLUMN(REAL, "of_roofline", "Of roofline", .unit = "%", .decimals = 0),
};

/* ---- rows ---------------------------------------------------------------- */

static void add_row(lsi_table *table, const lsi_profile *p, const char *name,
                    const lsi_profile_sum *sum)
{
    const double seconds = (double)sum->ns * 1e-9;
    lsi_table_row(table);
    lsi_table_text(table, "kernel", name);
    lsi_table_int(table, "calls", (int64_t)sum->calls);
    lsi_table_real(table, "total_ms", seconds * 1e3);
    if (sum->calls > 0)
        lsi_table_real(table, "mean_us", seconds * 1e6 / (double)sum->calls);
    lsi_table_real(table, "share", 100.0 * (double)sum->ns / (double)p->time);
}

static void add_kernel(lsi_table *table, const lsi_profile *p,
                       const lsi_profile_kernel *kernel,
                       const lsi_profile_peaks *peaks)
{
    const lsi_profile_sum sum = lsi_profile_total(kernel);
    const double seconds = (double)sum.ns * 1e-9;
    add_row(table, p, kernel->name, &sum);
    if (sum.ns == 0)
        return;
    if (sum.work > 0)
        lsi_table_real(table, "gflops", (double)sum.work / seconds * 1e-9);
    if (sum.bytes > 0)
        lsi_table_real(table, "gb_per_s", (double)sum.bytes / seconds * 1e-9);
    const double share = lsi_profile_of_roofline(kernel->name, &sum, peaks);
    if (share > 0)
        lsi_table_real(table, "of_roofline", 100 * share);
}

/* The parts of the rest of the time. */
static void add_rest(lsi_table *table, const lsi_profile *p)
{
    lsi_profile_sum waits = {0}, weights = {0}, rest = {.ns = p->time};
    for (size_t i = 0; i < p->n_phases; i++) {
        waits.ns += p->waited[i];
        weights.ns += p->weights.waited[i];
    }
    for (size_t i = 0; i < p->n; i++)
        rest.ns -= lsi_profile_total(&p->kernel[i]).ns;
    rest.ns -= waits.ns;
    waits.ns -= weights.ns;
    if (weights.ns > 0)
        add_row(table, p, "(waiting for weights)", &weights);
    if (waits.ns > 0)
        add_row(table, p, "(waiting for ranks)", &waits);
    add_row(table, p, "(between kernels)", &rest);
}

static ls_status make_table(const lsi_profile *p, size_t most,
                            const lsi_profile_peaks *peaks, lsi_table **out)
{
    LS_TRY(LSI_TABLE_NEW(out, columns));
    for (size_t i = 0; i < p->n && i < most; i++)
        add_kernel(*out, p, &p->kernel[i], peaks);
    add_rest(*out, p);
    return lsi_table_status(*out);
}

/* ---- JSON ---------------------------------------------------------------- */

static json_t *phases_json(const lsi_profile *p)
{
    json_t *const list = json_array();
    for (size_t i = 0; i < p->n_phases; i++)
        json_array_append_new(
            list, json_pack("{s:s, s:I, s:f, s:f, s:f}", "phase", p->phase[i],
                            "entered", (json_int_t)p->entered[i], "wall_ms",
                            (double)p->wall[i] * 1e-6, "alone_ms",
                            (double)p->alone[i] * 1e-6, "waited_ms",
                            (double)p->waited[i] * 1e-6));
    return list;
}

static json_t *slowest_json(const lsi_profile *p)
{
    json_t *const list = json_array();
    for (size_t i = 0; i < p->n_slowest; i++) {
        const lsi_profile_slowest *const s = &p->slowest[i];
        json_array_append_new(
            list,
            json_pack("{s:I, s:i, s:s, s:f, s:f}", "step", (json_int_t)s->step,
                      "rank", s->rank, "phase", p->phase[s->phase], "phase_ms",
                      (double)s->ns * 1e-6, "step_ms", (double)s->all * 1e-6));
    }
    return list;
}

static double step_ms(const lsi_profile *p, int64_t ns)
{
    return (double)ns * 1e-6 / (double)p->steps;
}

static json_t *reasons_json(const lsi_profile *p, const int64_t *because)
{
    return json_pack("{s:f, s:f, s:f, s:f}", "first_layer_ms",
                     step_ms(p, because[LSI_WHY_FIRST]), "not_ahead_ms",
                     step_ms(p, because[LSI_WHY_NOT_AHEAD]), "owner_ms",
                     step_ms(p, because[LSI_WHY_OWNER]), "link_ms",
                     step_ms(p, because[LSI_WHY_LINK]));
}

/* Per step of a rank, and of late layers per gather. */
static json_t *weights_json(const lsi_profile *p)
{
    const lsi_profile_weights *const w = &p->weights;
    const double late = w->late.calls > 0 ? (double)w->late.calls : 1;
    if (w->gathers.calls == 0 && w->n == 0)
        return json_null();
    json_t *const phases = json_object(), *const layers = json_array();
    int64_t waited = 0;
    for (size_t i = 0; i < p->n_phases; i++) {
        waited += w->waited[i];
        if (w->waited[i] > 0)
            json_object_set_new(phases, p->phase[i],
                                json_real(step_ms(p, w->waited[i])));
    }
    for (size_t i = 0; i < w->n; i++)
        json_array_append_new(
            layers,
            json_pack("{s:s, s:f, s:f, s:o}", "layer", w->layer[i].name,
                      "waits", (double)w->layer[i].waits / (double)p->steps,
                      "waited_ms", step_ms(p, w->layer[i].ns), "reasons",
                      reasons_json(p, w->layer[i].because)));
    return json_pack(
        "{s:f, s:f, s:f, s:o, s:o, s:{s:I, s:f, s:f, s:f}, s:o}",
        "gathered_bytes", (double)w->gathers.bytes / (double)p->steps,
        "in_flight_ms", step_ms(p, w->gathers.ns), "waited_ms",
        step_ms(p, waited), "waited_phases_ms", phases, "reasons",
        reasons_json(p, w->because), "late", "gathers",
        (json_int_t)w->late.calls, "bytes", (double)w->late.bytes / late,
        "transfer_ms", (double)w->late.ns * 1e-6 / late, "ahead_ms",
        (double)w->ahead * 1e-6 / late, "layers", layers);
}

static json_t *answers_json(const lsi_profile_answer *answers)
{
    json_t *const all = json_object();
    for (int i = 0; i < LSI_PROFILE_ANSWERS; i++)
        if (answers[i].text[0] != '\0')
            json_object_set_new(all, answers[i].key,
                                json_string(answers[i].text));
    return all;
}

static json_t *split_json(const lsi_profile *p)
{
    lsi_profile_split s;
    if (!lsi_profile_split_of(p, &s))
        return json_null();
    return json_pack("{s:f, s:f, s:f, s:f, s:f}", "forward", s.forward,
                     "backward", s.backward, "optimizer", s.optimizer,
                     "exposed_communication", s.exposed, "rest", s.rest);
}

typedef struct findings {
    const lsi_profile *profile;
    lsi_profile_answer answers[LSI_PROFILE_ANSWERS];
    lsi_machine_rates rates;
    lsi_error refused; /* why there are no rates */
    const char *isa;   /* of the run; NULL: not known, or that of the rates */
} findings;

static json_t *rates_json(const findings *f)
{
    return f->refused.status == LS_OK ? lsi_machine_rates_json(&f->rates)
                                      : json_null();
}

static ls_status write_json(const lsi_invocation *call, const args *a,
                            const findings *f)
{
    const lsi_profile *const p = f->profile;
    lsi_table *table = NULL;
    char *text = NULL;
    json_t *json = NULL, *layers = NULL;
    ls_status status = make_table(p, p->n, &f->rates.found.peaks, &table);
    if (status == LS_OK)
        status = lsi_table_json(table, call->line_argc,
                                (const char *const *)call->line_argv, &text);
    lsi_table_free(&table);
    if (status == LS_OK)
        status = lsi_layers_json(p, &f->rates.found.peaks, &layers);
    if (status != LS_OK)
        free(text);
    LS_TRY(status);
    json = json_loads(text, 0, NULL);
    free(text);
    const double overlap = lsi_profile_overlap(p);
    char part[160];
    lsi_profile_part(p, part, sizeof(part));
    json_object_update_new(
        json,
        json_pack(
            "{s:s, s:o, s:f, s:i, s:I, s:f, s:o, s:o, s:o, s:o, s:o, s:o, "
            "s:o}",
            "part", part, "split", split_json(p), "part_ms",
            (double)p->time * 1e-6 / (double)p->steps, "ranks", p->ranks,
            "steps", (json_int_t)p->steps, "step_ms",
            (double)p->step_ns * 1e-6 / (double)p->steps, "overlap",
            overlap < 0 ? json_null() : json_real(overlap), "peaks",
            rates_json(f), "layers", layers, "phases", phases_json(p),
            "slowest", slowest_json(p), "weights", weights_json(p), "answers",
            answers_json(f->answers)));
    return lsi_result_write_json(a->json, json, LSI_JSON_NARROW, "the profile");
}

/* ---- the command --------------------------------------------------------- */

/* The rows and their shares are of that, and not of whole steps. */
static void print_part(const lsi_profile *p)
{
    char part[160];
    if (p->only_range == NULL && p->only_phase == NULL)
        return;
    lsi_profile_part(p, part, sizeof(part));
    lsi_paragraph(
        stdout,
        "Only %s: %.3f ms per step. Totals and shares refer to this part.\n",
        part, (double)p->time * 1e-6 / (double)p->steps);
}

/* "31%", "7.5%" */
typedef struct percent_text {
    char text[16];
} percent_text;

static percent_text percent(double share)
{
    percent_text out;
    snprintf(out.text, sizeof(out.text), "%.*f%%", share < 0.0995 ? 1 : 0,
             100 * share);
    return out;
}

static void print_split(const lsi_profile *p)
{
    lsi_profile_split s;
    if (lsi_profile_split_of(p, &s))
        lsi_paragraph(stdout,
                      "Forward %s, backward %s, optimizer %s, exposed "
                      "communication %s, rest %s",
                      percent(s.forward).text, percent(s.backward).text,
                      percent(s.optimizer).text, percent(s.exposed).text,
                      percent(s.rest).text);
}

/* Rates of other instructions say little about the run. */
static void print_isa(const findings *f)
{
    if (f->isa != NULL)
        lsi_paragraph(stdout,
                      "The run used the instruction set %s, and the peak rates "
                      "are those of %s. To compare the run with its own "
                      "instruction set, set LOCKSTEP_ISA=%s",
                      f->isa, f->rates.found.place.isa, f->isa);
}

static void print_rates(const findings *f)
{
    if (f->refused.status != LS_OK)
        lsi_paragraph(stdout, "No roofline: %s", f->refused.text);
    else
        lsi_machine_rates_print(&f->rates);
    print_isa(f);
    putchar('\n');
}

static ls_status print(const args *a, const findings *f)
{
    const lsi_profile *const p = f->profile;
    lsi_table *table = NULL;
    print_split(p);
    printf("%d rank%s, %llu step%s%s %.3f ms per step%s\n", p->ranks,
           p->ranks == 1 ? "" : "s", (unsigned long long)p->steps,
           p->steps == 1 ? "" : "s",
           p->ranks > 1 ? " in all ranks together," : ",",
           (double)p->step_ns * 1e-6 / (double)p->steps,
           p->no_steps ? " (the trace marks no steps, so the whole trace "
                         "counts as one step)"
                       : "");
    print_rates(f);
    print_part(p);
    ls_status status =
        make_table(p, (size_t)a->top, &f->rates.found.peaks, &table);
    if (status == LS_OK)
        status = lsi_table_print(table, stdout);
    lsi_table_free(&table);
    if (status == LS_OK)
        status =
            lsi_slow_layers_print(p, &f->rates.found.peaks, (size_t)a->top);
    for (int i = 0; i < LSI_PROFILE_ANSWERS && status == LS_OK; i++)
        if (f->answers[i].text[0] != '\0')
            lsi_paragraph(stdout, "\n%s: %s", f->answers[i].title,
                          f->answers[i].text);
    return status;
}

/* Ranks of the host that has the most of them. */
static int ranks_of_a_host(const lsi_timeline *t)
{
    int most = 1;
    for (size_t i = 0; i < t->n; i++) {
        int n = 0;
        for (size_t j = 0; j < t->n; j++)
            n += strcmp(t->process[i]->boot, t->process[j]->boot) == 0;
        most = n > most ? n : most;
    }
    return most;
}

/* The most threads of a rank that the trace contains; 0: none. */
static int threads_of_a_rank(const lsi_timeline *t)
{
    int most = 0;
    for (size_t i = 0; i < t->n; i++)
        most =
            t->process[i]->computing > most ? t->process[i]->computing : most;
    return most;
}

/* The first instruction set of a rank that differs from this one; or NULL. */
static const char *other_isa(const lsi_timeline *t, const char *isa)
{
    for (size_t i = 0; i < t->n; i++) {
        const char *const of_rank = t->process[i]->isa;
        if (of_rank[0] != '\0' && strcmp(of_rank, isa) != 0)
            return of_rank;
    }
    return NULL;
}

/*
 * Whether matrix products were faster than they can be. Small data may be in
 * caches, and be faster than memory.
 */
static bool is_beyond(const lsi_profile *p, const lsi_profile_peaks *peaks)
{
    for (size_t i = 0; i < p->n; i++) {
        const char *const name = p->kernel[i].name;
        const lsi_profile_sum sum = lsi_profile_total(&p->kernel[i]);
        const double peak = lsi_profile_product_rate(name, peaks);
        if (strncmp(name, "gemm_", 5) == 0 &&
            (double)sum.work > peak * (double)sum.ns * 1e-9)
            return true;
    }
    return false;
}

/* A profile of a busy machine has no rooflines, unless that was asked for. */
static ls_status find_rates(const args *a, const lsi_timeline *timeline,
                            findings *f)
{
    bool refused;
    int threads = (int)a->threads;
    if (threads == 0)
        threads = threads_of_a_rank(timeline);
    if (threads == 0)
        threads = lsi_cpus_available() / ranks_of_a_host(timeline);
    const lsi_rates_wanted wanted = {.threads = threads > 0 ? threads : 1,
                                     .again = a->measure,
                                     .force = a->force};
    const ls_status status = lsi_machine_peaks(&wanted, &f->rates, &refused);
    if (refused && !a->measure) {
        (void)lsi_error_keep(&f->refused, status);
        return LS_OK;
    }
    LS_TRY(status);
    f->isa = other_isa(timeline, f->rates.found.place.isa);
    return is_beyond(f->profile, &f->rates.found.peaks)
               ? lsi_machine_peaks_raise(&f->rates, a->force)
               : LS_OK;
}

static ls_status report(const lsi_invocation *call, const args *a,
                        const lsi_timeline *timeline, lsi_profile *p)
{
    findings f = {.profile = p};
    LS_TRY(find_rates(a, timeline, &f));
    lsi_profile_sort_layers(p, &f.rates.found.peaks);
    lsi_profile_answer_all(p, f.answers);
    if (!lsi_result_is_stdout(a->json))
        LS_TRY(print(a, &f));
    return a->json == NULL ? LS_OK : write_json(call, a, &f);
}

static int run_profile(const lsi_invocation *call)
{
    args a;
    int exit_status;
    const char *folder;
    lsi_attempts attempts;
    lsi_timeline *timeline = NULL;
    lsi_profile *profile = NULL;
    if (!lsi_cli_parse_argument(call, &a, &folder, &exit_status))
        return exit_status;
    if (folder == NULL)
        return lsi_cli_usage("give one folder of traces: " LSI_TRACE_FOLDER);
    if (a.range != NULL && a.phase != NULL)
        return lsi_cli_usage("give --range or --phase, not both");
    const lsi_profile_filter filter = {a.range, a.phase, (int)a.rank, a.warmup};
    ls_status status = lsi_result_check(a.json);
    if (status == LS_OK)
        status = lsi_find_attempt(folder, ".lstrace", a.attempt, &attempts);
    if (status == LS_OK)
        status = lsi_timeline_read(attempts.folder, &timeline);
    if (status == LS_OK) {
        lsi_tell_attempt(&attempts);
        lsi_timeline_warn(timeline, stderr);
        status = lsi_profile_of(timeline, &filter, &profile);
    }
    if (status == LS_OK)
        status = report(call, &a, timeline, profile);
    lsi_profile_free(&profile);
    lsi_timeline_free(&timeline);
    return status == LS_OK ? 0 : lsi_cli_error();
}

const lsi_command lsi_command_profile = {
    .name = "profile",
    .summary = "Show where a traced run spends its time",
    .arguments = "DIR",
    .text =
        "DIR is " LSI_TRACE_FOLDER
        ". The first line divides the time of a step into forward, "
        "backward, optimizer, exposed communication (waiting for ranks, and "
        "gradient sync) and the rest. Each row of the table is a kernel, "
        "summed over all ranks and all steps after the warm-up. The last "
        "column compares the rates of the kernel with the peak rates of this "
        "machine (the roofline). The next table names the products of layers "
        "that run below 80% of the product rate, the largest gain first. Short "
        "answers follow: the time of forward, "
        "the kernels that take the most time, the share of matrix products, "
        "and softmax against matrix products in attention. The last answers "
        "name the share of communication that computation hides, and the "
        "slowest rank of each phase (docs/how-to/profiling.md).",
    LSI_COMMAND_OPTIONS(options),
    .run = run_profile,
};

/*
 * lockstep memory: holders of the memory of a model that it runs itself, or of
 * a run that has recorded it.
 */
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/printable.h"
#include "cli/bench/bench.h"
#include "cli/commands/memory_case.h"
#include "cli/commands/memory_tables.h"
#include "cli/frame/command.h"
#include "cli/frame/dtype_flag.h"
#include "cli/frame/list.h"
#include "cli/frame/lm_flags.h"
#include "cli/frame/ranks.h"
#include "report/folder.h"
#include "report/result.h"
#include "report/table.h"

enum { MAX_MODES = 2 };

typedef struct args {
    const char *sizes, *contexts, *batches, *dtypes, *modes, *json, *out;
    int64_t steps, budget, threads, top, attempt;
    bool wide, markdown;
} args;

#define ROW(...) LSI_OPTION(args, __VA_ARGS__)
static const lsi_option options[] = {
    ROW(sizes, LIST, "size", 0, "NAME,...", "small", LSI_LM_SIZES_HELP),
    ROW(contexts, LIST, "context", 'c', "N,...", "128", "tokens per sequence"),
    ROW(batches, LIST, "batch-size", 'b', "N,...", "4", "sequences per batch"),
    LSI_DTYPES_ROW(dtypes),
    ROW(modes, LIST, "mode", 0, "MODE,...", "step",
        "forward: inference, without keeping activations for backward; step: "
        "forward, backward and AdamW"),
    ROW(steps, INT, "iterations", 0, "N", "2",
        "number of forward passes or steps to run", .min = 1, .max = 1e6),
    LSI_THREADS_ROW(threads),
    LSI_BUDGET_ROW(budget, " of each model"),
    LSI_ATTEMPT_ROW(attempt),
    ROW(top, INT, "rows", 0, "N", "20",
        "largest number of rows to print in a table; --json writes all rows",
        .min = 1, .max = 1e6),
    LSI_JSON_ROW(json),
    LSI_MARKDOWN_ROW(markdown),
    ROW(out, STRING, "out", 'o', "FILE.svg", NULL,
        "draw memory over time into this file (needs gnuplot); only for a "
        "single case or rank"),
    ROW(wide, BOOL, "wide", 0, NULL, NULL, "show all columns"),
};

#define MIB(...) LSI_COLUMN(REAL, __VA_ARGS__, .decimals = 1, .width = 6)
#define BYTES(others_wide)                                                     \
    LSI_COLUMN(INT, "peak_bytes", "", .wide = true),                           \
        MIB("peak_mib", "Peak MiB"), MIB("parameters_mib", "Params"),          \
        MIB("gradients_mib", "Grads"), MIB("state_mib", "State"),              \
        MIB("activations_mib", "Activ."),                                      \
        MIB("kept_mib", "Kept", .wide = (others_wide)),                        \
        MIB("rest_mib", "Rest", .wide = (others_wide))

static const lsi_column model_columns[] = {
    LSI_COLUMN(TEXT, "size", "Size", .width = 6),
    LSI_COLUMN(INT, "context", "Context"),
    LSI_COLUMN(INT, "batch", "Batch", .wide = true),
    LSI_COLUMN(TEXT, "dtype", "Type", .width = 4),
    LSI_COLUMN(TEXT, "mode", "Mode", .width = 7),
    BYTES(true),
    LSI_COLUMN(INT, "resident_bytes", "", .wide = true),
    LSI_COLUMN(INT, "code_bytes", "", .wide = true),
    LSI_COLUMN(REAL, "resident_percent", "Of resident", .unit = "%",
               .decimals = 1, .wide = true),
    LSI_COLUMN(TEXT, "status", "Status"),
};

/* A process that has opened no group has no rank. */
static const lsi_column recording_columns[] = {
    LSI_COLUMN(INT, "rank", "Rank"),
    LSI_COLUMN(INT, "process", "Process"),
    LSI_COLUMN(TEXT, "host", "Host", .wide = true),
    BYTES(false),
    LSI_COLUMN(REAL, "gathered_mib", "Gath.", .decimals = 1, .width = 5),
    LSI_COLUMN(TEXT, "status", "Status"),
};

/* The requested cases and their results. */
typedef struct work {
    const lsi_invocation *call;
    args a;
    lsi_lm_sizes sizes;
    size_t n_modes;
    bool steps[MAX_MODES]; /* else forward */
    lsi_list contexts, batches;
    lsi_dtype_list types;
    lsi_table *table;
    json_t *details; /* of each row */
    bool only;       /* there is one row, shown in detail */
} work;

/* ---- rows ---------------------------------------------------------------- */

static const double mib = 1024.0 * 1024.0;

static void record_bytes(lsi_table *table, const lsi_memory_file *f)
{
    const int64_t *const at = f->at_peak;
    const int64_t rest = at[LS_MEMORY_WORKSPACE] + at[LS_MEMORY_COMM] +
                         at[LS_MEMORY_DATA] + at[LS_MEMORY_OTHER];
    lsi_table_int(table, "peak_bytes", f->peak);
    lsi_table_real(table, "peak_mib", (double)f->peak / mib);
    lsi_table_real(table, "parameters_mib",
                   (double)at[LS_MEMORY_PARAMETERS] / mib);
    lsi_table_real(table, "gradients_mib",
                   (double)at[LS_MEMORY_GRADIENTS] / mib);
    lsi_table_real(table, "state_mib", (double)at[LS_MEMORY_STATE] / mib);
    lsi_table_real(table, "activations_mib",
                   (double)at[LS_MEMORY_ACTIVATIONS] / mib);
    lsi_table_real(table, "kept_mib", (double)at[LSI_MEMORY_KEPT] / mib);
    lsi_table_real(table, "rest_mib", (double)rest / mib);
}

/* ---- a model ------------------------------------------------------------- */

static ls_status read_mode(void *opaque, const char *word)
{
    work *const w = opaque;
    const bool steps = strcmp(word, "step") == 0;
    if (!steps && strcmp(word, "forward") != 0)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "unknown --mode '%s'; choose one of: forward, step",
                        word);
    if (w->n_modes == MAX_MODES)
        return lsi_fail(LS_ERR_ARGUMENT, "--mode lists more than %d modes",
                        MAX_MODES);
    w->steps[w->n_modes++] = steps;
    return LS_OK;
}

static ls_status parse(work *w)
{
    const args *const a = &w->a;
    LS_TRY(lsi_cli_lm_sizes(a->sizes, &w->sizes));
    LS_TRY(lsi_each_word("--mode", a->modes, read_mode, w));
    LS_TRY(lsi_cli_dtypes(a->dtypes, &w->types));
    LS_TRY(lsi_list_of_numbers("--context", a->contexts, 1, 1 << 20,
                               &w->contexts));
    LS_TRY(lsi_list_of_numbers("--batch-size", a->batches, 1, 1 << 20,
                               &w->batches));
    w->only = w->sizes.n * w->n_modes * (size_t)w->types.n * w->contexts.n *
                  w->batches.n ==
              1;
    if (a->out != NULL && !w->only)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "--out draws a single case; give one size, one "
                        "context, one batch size, one type and one mode");
    return LS_OK;
}

static void record_case(lsi_table *table, const lsi_memory_case *c)
{
    lsi_table_row(table);
    lsi_table_text(table, "size", c->size);
    lsi_table_int(table, "context", c->lm.config.context);
    lsi_table_int(table, "batch", c->lm.batch);
    lsi_table_text(table, "dtype", ls_dtype_name(c->lm.dtype));
    lsi_table_text(table, "mode", c->lm.optimize ? "step" : "forward");
}

static ls_status record_outcome(lsi_table *table, const lsi_memory_outcome *o)
{
    if (o->status != LS_OK && o->status != LS_ERR_BUDGET &&
        o->status != LS_ERR_MEMORY)
        return lsi_fail(o->status, "%s", o->message);
    lsi_table_text(table, "status",
                   o->status == LS_OK ? "ok" : "out of memory");
    if (o->file == NULL)
        return LS_OK;
    record_bytes(table, o->file);
    if (o->resident <= 0)
        return LS_OK;
    lsi_table_int(table, "resident_bytes", o->resident);
    lsi_table_int(table, "code_bytes", o->files);
    lsi_table_real(table, "resident_percent",
                   100.0 * (double)o->peak / (double)o->resident);
    return LS_OK;
}

/* ---- details of one case ------------------------------------------------- */

static ls_status report_details(work *w, const lsi_memory_file *f,
                                lsi_memory_residual residual)
{
    json_array_append_new(w->details, lsi_memory_json(f, residual));
    if (!w->only)
        return LS_OK;
    if (!lsi_result_is_stdout(w->a.json))
        LS_TRY(lsi_memory_print(f, residual, (size_t)w->a.top, w->a.wide));
    return w->a.out != NULL ? lsi_memory_picture(f, w->a.out) : LS_OK;
}

/* Prints the rows from `first` on. */
static ls_status show(const work *w, size_t first)
{
    if (lsi_result_is_stdout(w->a.json))
        return LS_OK;
    LS_TRY(lsi_table_print_rows(w->table, first, stdout));
    fflush(stdout);
    return LS_OK;
}

static ls_status run_case(work *w, const lsi_memory_case *c)
{
    lsi_memory_outcome o;
    const size_t row = lsi_table_row_count(w->table);
    LS_TRY(lsi_memory_case_run(c, &o));
    record_case(w->table, c);
    ls_status status = record_outcome(w->table, &o);
    if (status == LS_OK)
        status = show(w, row);
    if (o.status != LS_OK && status == LS_OK) {
        fprintf(stderr, "%s, context %" PRId64 ": %s\n", c->size,
                c->lm.config.context, o.message);
        json_array_append_new(w->details, json_null());
    }
    if (status == LS_OK && w->only && o.file != NULL &&
        !lsi_result_is_stdout(w->a.json))
        printf("\n");
    if (status == LS_OK && o.file != NULL)
        status = report_details(
            w, o.file,
            (lsi_memory_residual){.batch = c->lm.batch,
                                  .context = c->lm.config.context,
                                  .d_model = c->lm.config.d_model});
    lsi_memory_file_free(&o.file);
    return status;
}

/* Modes vary fastest, then the type, the batch, the context. */
static ls_status run_number(work *w, size_t i)
{
    lsi_memory_case c = {
        .steps = w->a.steps, .budget = w->a.budget, .threads = w->a.threads};
    c.lm.optimize = c.lm.backward = w->steps[i % w->n_modes];
    i /= w->n_modes;
    c.lm.dtype = w->types.values[i % (size_t)w->types.n];
    i /= (size_t)w->types.n;
    c.lm.batch = w->batches.values[i % w->batches.n];
    i /= w->batches.n;
    c.size = w->sizes.names[i / w->contexts.n];
    LS_TRY(ls_transformer_size(c.size, &c.lm.config));
    c.lm.config.context = w->contexts.values[i % w->contexts.n];
    return run_case(w, &c);
}

static ls_status run_models(work *w)
{
    const size_t n = w->sizes.n * w->n_modes * (size_t)w->types.n *
                     w->contexts.n * w->batches.n;
    for (int i = 0; i < w->types.n; i++)
        lsi_cli_dtype_note(w->types.values[i]);
    if (!lsi_result_is_stdout(w->a.json))
        LS_TRY(lsi_table_print_titles(w->table, stdout));
    for (size_t i = 0; i < n; i++)
        LS_TRY(run_number(w, i));
    return LS_OK;
}

/* ---- recordings ---------------------------------------------------------- */

static void print_origin(const lsi_memory_file *f, const char *path)
{
    printf("%s: ", lsi_printable_of(path).text);
    if (f->process->rank >= 0)
        printf("rank %d of %d, ", f->process->rank, f->process->size);
    printf("process %d on %s, Lockstep %s\n\n", f->process->pid,
           f->process->host, f->process->version);
}

static ls_status read_recording(work *w, const char *path)
{
    lsi_memory_file *f = NULL;
    LS_TRY(lsi_memory_read(path, &f));
    lsi_table_row(w->table);
    if (f->process->rank >= 0)
        lsi_table_int(w->table, "rank", f->process->rank);
    lsi_table_int(w->table, "process", f->process->pid);
    lsi_table_text(w->table, "host", f->process->host);
    lsi_table_text(w->table, "status", f->process->whole ? "ok" : "no end");
    record_bytes(w->table, f);
    lsi_table_real(w->table, "gathered_mib",
                   (double)f->at_peak[LS_MEMORY_GATHERED] / mib);
    if (w->only && !lsi_result_is_stdout(w->a.json))
        print_origin(f, path);
    const ls_status status = report_details(w, f, (lsi_memory_residual){0});
    lsi_memory_file_free(&f);
    return status;
}

/* Whether the name of a file ends in ".lsmem". */
static int is_recording(const struct dirent *entry)
{
    const size_t n = strlen(entry->d_name);
    return n > 6 && strcmp(entry->d_name + n - 6, ".lsmem") == 0;
}

static ls_status read_names(work *w, const char *folder, struct dirent **names,
                            int n)
{
    int ranks = 0;
    for (int i = 0; i < n; i++)
        ranks += strncmp(names[i]->d_name, "rank-", 5) == 0;
    w->only = (ranks > 0 ? ranks : n) == 1;
    if (w->a.out != NULL && !w->only)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "--out draws a single rank; instead of the folder "
                        "'%s', give the file of one rank in this folder",
                        folder);
    for (int i = 0; i < n; i++) {
        char path[4352];
        if (ranks > 0 && strncmp(names[i]->d_name, "rank-", 5) != 0)
            continue;
        snprintf(path, sizeof(path), "%.4000s/%s", folder, names[i]->d_name);
        LS_TRY(read_recording(w, path));
    }
    return LS_OK;
}

static ls_status read_folder(work *w, const char *folder)
{
    struct dirent **names = NULL;
    const int n = scandir(folder, &names, is_recording, versionsort);
    if (n < 0)
        return lsi_fail_errno(LS_ERR_IO, "cannot read '%s'", folder);
    const ls_status status =
        n == 0 ? lsi_fail(LS_ERR_NOT_FOUND,
                          "'%s' contains no recordings of memory (*.lsmem). "
                          "Run the program with --record-memory or "
                          "LOCKSTEP_MEMORY to record its memory",
                          folder)
               : read_names(w, folder, names, n);
    for (int i = 0; i < n; i++)
        free(names[i]);
    free(names);
    return status;
}

static ls_status read_path(work *w, const char *path)
{
    struct stat info;
    lsi_attempts attempts;
    w->only = true;
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
        LS_TRY(lsi_find_attempt(path, ".lsmem", w->a.attempt, &attempts));
        lsi_tell_attempt(&attempts);
        LS_TRY(read_folder(w, attempts.folder));
    } else {
        LS_TRY(read_recording(w, path));
    }
    if (w->only || lsi_result_is_stdout(w->a.json))
        return LS_OK;
    return lsi_table_print(w->table, stdout);
}

/* ---- the command --------------------------------------------------------- */

static ls_status write_json(const work *w)
{
    char *text = NULL;
    LS_TRY(lsi_table_json(w->table, w->call->line_argc,
                          (const char *const *)w->call->line_argv, &text));
    json_t *const json = json_loads(text, 0, NULL);
    free(text);
    json_object_set(json, "details", w->details);
    return lsi_result_write_json(w->a.json, json, LSI_JSON_NARROW,
                                 "the tables");
}

static ls_status new_table(work *w, bool recordings)
{
    LS_TRY(recordings ? LSI_TABLE_NEW(&w->table, recording_columns)
                      : LSI_TABLE_NEW(&w->table, model_columns));
    if (w->a.wide)
        lsi_table_show_wide(w->table);
    return LS_OK;
}

static int run_memory(const lsi_invocation *call)
{
    static work w;
    int exit_status;
    const char *path;
    w = (work){.call = call};
    if (!lsi_cli_parse_argument(call, &w.a, &path, &exit_status))
        return exit_status;
    if (path == NULL && parse(&w) != LS_OK)
        return lsi_cli_usage("%s", ls_last_error());
    w.details = json_array();
    ls_status status = lsi_result_check(w.a.json);
    if (status == LS_OK)
        status = lsi_result_check_file(w.a.out);
    if (status == LS_OK)
        status = new_table(&w, path != NULL);
    if (status == LS_OK)
        status = path != NULL ? read_path(&w, path) : run_models(&w);
    if (w.a.json != NULL && lsi_table_row_count(w.table) > 0) {
        const ls_status written = write_json(&w);
        status = status == LS_OK ? written : status;
    }
    lsi_table_free(&w.table);
    json_decref(w.details);
    return status == LS_OK ? 0 : lsi_cli_error();
}

const lsi_command lsi_command_memory = {
    .name = "memory",
    .summary = "Show what uses the memory of a model or of a recorded run",
    .arguments = "[FILE|DIR]",
    .text =
        "Without an argument, runs language models on random tokens, each "
        "in a separate process. Prints the peak memory by kind, and the memory "
        "that tapes keep for the next step. Also prints the counted memory in "
        "percent of the growth in resident memory, without the code of "
        "libraries. With FILE or DIR, reads a recording of --record-memory, "
        "LOCKSTEP_MEMORY or ls_memory_record_start. For a single case or rank, "
        "more tables show the memory in use at the peak, by layer and by "
        "operation. Another table lists the largest blocks and the source "
        "lines that allocated them (docs/how-to/memory.md).",
    LSI_COMMAND_OPTIONS(options),
    .run = run_memory,
};

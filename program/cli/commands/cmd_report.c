/* lockstep report: runs the missing measurements, and writes the report. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "cli/commands/report/report.h"
#include "cli/frame/command.h"
#include "report/result.h"

typedef struct args {
    const char *out, *peers, *data, *again, *only;
    bool quick, full;
} args;

#define ROW(...) LSI_OPTION(args, __VA_ARGS__)
static const lsi_option options[] = {
    ROW(quick, BOOL, "quick", 0, NULL, NULL,
        "measure small sizes with few runs; takes a few minutes"),
    ROW(full, BOOL, "full", 0, NULL, NULL,
        "measure large sizes with many runs; takes hours (default, unless "
        "--quick or FILE is given)"),
    ROW(out, STRING, "out", 'o', "DIR", "report",
        "folder for index.html, report.md, plots, rows and traces"),
    ROW(peers, STRING, "peers", 0, "FILE", NULL,
        "file with results of other programs for comparison "
        "(docs/how-to/report.md)"),
    ROW(data, STRING, "data", 0, "PATH", NULL,
        "CIFAR-100 dataset for training on images (default: a built-in set)"),
    ROW(only, LIST, "only", 0, "NAME,...", NULL,
        "measure only these sections or measurements; the report still "
        "contains all stored results"),
    ROW(again, LIST, "again", 0, "NAME,...", NULL,
        "measure these sections or measurements again, even if their results "
        "are stored"),
};

/* ---- what is asked for --------------------------------------------------- */

static ls_status check_list(const char *flag, const char *list)
{
    while (list != NULL && *list != '\0') {
        char word[64];
        bool known = false;
        const size_t length = strcspn(list, ",");
        snprintf(word, sizeof(word), "%.*s", (int)length, list);
        for (size_t i = 0; i < lsi_sections_count; i++) {
            const lsi_section *const s = lsi_sections[i];
            known |= strcmp(s->id, word) == 0;
            for (size_t k = 0; k < s->n; k++)
                known |= strcmp(s->measurements[k].id, word) == 0;
        }
        if (!known)
            return lsi_fail(LS_ERR_ARGUMENT,
                            "%s names the unknown section or measurement '%s'; "
                            "docs/how-to/report.md lists the valid names",
                            flag, word);
        list += length + (list[length] == ',');
    }
    return LS_OK;
}

static ls_status read_peers(lsi_study *r, const char *path)
{
    json_error_t error;
    if (path == NULL)
        return LS_OK;
    r->peers = json_load_file(path, 0, &error);
    if (r->peers == NULL)
        return lsi_fail(LS_ERR_FORMAT, "cannot read '%s': %s (line %d)", path,
                        error.text, error.line);
    if (!json_is_array(json_object_get(r->peers, "rows")))
        return lsi_fail(LS_ERR_FORMAT,
                        "'%s' does not contain a list 'rows'; "
                        "docs/how-to/report.md describes the format",
                        path);
    return LS_OK;
}

/* Metrics of a run: a file, or a folder with metrics.jsonl. */
static ls_status read_run(lsi_study *r, const char *path)
{
    char file[PATH_MAX];
    struct stat about;
    json_t *rows = NULL;
    const bool folder = stat(path, &about) == 0 && S_ISDIR(about.st_mode);
    snprintf(file, sizeof(file), "%s%s", path, folder ? "/metrics.jsonl" : "");
    LS_TRY(lsi_rows_read(file, LSI_ROWS_METRICS, &rows));
    const char *const slash = strrchr(path, '/');
    const char *const name =
        slash != NULL && slash[1] != '\0' ? slash + 1 : path;
    json_object_set_new(rows, "name", lsi_json_text(name, strlen(name)));
    json_array_append_new(r->compared, rows);
    if (json_array_size(json_object_get(rows, "rows")) == 0)
        return lsi_fail(LS_ERR_FORMAT,
                        "'%s' contains no metrics; give a file that a training "
                        "run wrote with --metrics",
                        file);
    return LS_OK;
}

/* ---- the folder ---------------------------------------------------------- */

static const char title[] = "The cost of data-parallel training";

/*
 * Refuses to overwrite a file of another program. Files of this command have
 * the title near their beginning.
 */
static ls_status check_ours(const char *name)
{
    enum { HEAD = 400 };
    char head[HEAD + 1] = "";
    struct stat about;
    if (stat(name, &about) != 0 || !S_ISREG(about.st_mode))
        return LS_OK;
    FILE *const file = fopen(name, "rb");
    if (file == NULL)
        return lsi_fail_errno(LS_ERR_IO, "cannot read '%s'", name);
    const size_t n = fread(head, 1, HEAD, file);
    fclose(file);
    if (n == 0 || strstr(head, title) != NULL)
        return LS_OK;
    return lsi_fail(
        LS_ERR_ARGUMENT,
        "will not overwrite '%s', because `lockstep report` did not write this "
        "file; remove the file, or choose another folder with --out",
        name);
}

/* First reports every obstacle that would stop the report at its end. */
static ls_status enter_folder(const char *path)
{
    LS_TRY(lsi_need_folders(path));
    if (chdir(path) != 0)
        return lsi_fail_errno(LS_ERR_IO, "cannot write into '%s'", path);
    LS_TRY(check_ours("index.html"));
    LS_TRY(check_ours("report.md"));
    LS_TRY(lsi_need_folders("rows"));
    LS_TRY(lsi_need_folders("plots"));
    LS_TRY(lsi_need_folders("traces"));
    LS_TRY(lsi_result_check("index.html"));
    LS_TRY(lsi_result_check("report.md"));
    return lsi_result_check("rows/measured.json");
}

/* ---- the page ------------------------------------------------------------ */

/* The first section describes the machine of all measurements. */
static bool has_content(const lsi_study *r, const lsi_section *s)
{
    if (s->n == 0)
        return json_array_size(r->compared) > 0;
    if (s == lsi_sections[0] || (r->runs && r->only == NULL))
        return true;
    for (size_t i = 0; i < s->n; i++) {
        if (json_object_get(r->measured, s->measurements[i].id) != NULL)
            return true;
        json_t *const rows = lsi_rows_of(s->measurements[i].id);
        json_decref(rows);
        if (rows != NULL)
            return true;
    }
    return false;
}

static ls_status write_file(const lsi_document *document, bool html)
{
    lsi_result_stream stream;
    LS_TRY(lsi_result_open(&stream, html ? "index.html" : "report.md"));
    return lsi_result_close(
        &stream, html ? lsi_document_html(document, stream.file)
                      : lsi_document_markdown(document, "plots", stream.file));
}

static ls_status write_page(lsi_study *r)
{
    LS_TRY(lsi_document_new(&r->document, title));
    for (size_t i = 0; i < lsi_sections_count; i++) {
        const lsi_section *const s = lsi_sections[i];
        if (!has_content(r, s))
            continue;
        lsi_document_heading(r->document, 2, "%s", s->title);
        lsi_study_commands(r, s);
        s->write(r);
    }
    LS_TRY(write_file(r->document, true));
    return write_file(r->document, false);
}

/* ---- the command --------------------------------------------------------- */

/* `data` is room for the path of the data, which outlives the call. */
static ls_status make_report(lsi_study *r, const args *a, char data[PATH_MAX])
{
    r->plots = lsi_plot_available();
    LS_TRY(check_list("--only", a->only));
    LS_TRY(check_list("--again", a->again));
    LS_TRY(read_peers(r, a->peers));
    if (a->data != NULL) {
        if (realpath(a->data, data) == NULL)
            return lsi_fail_errno(LS_ERR_IO, "cannot read '%s'", a->data);
        r->data = data;
    }
    LS_TRY(enter_folder(a->out));
    LS_TRY(lsi_study_open(r));
    if (!r->plots)
        fprintf(stderr, "lockstep: report: gnuplot is not installed, so the "
                        "report has tables but no plots\n");
    if (r->runs)
        LS_TRY(lsi_study_measure(r));
    LS_TRY(write_page(r));
    fprintf(
        stderr, "report: wrote %s/index.html and %s/report.md%s\n", a->out,
        a->out,
        r->ended_by != 0
            ? "; both contain only the results measured before the interruption"
            : "");
    return LS_OK;
}

static int run_report(const lsi_invocation *call)
{
    args a;
    char data[PATH_MAX];
    int rest, exit_status;
    if (!lsi_cli_parse(call, &a, &rest, &exit_status))
        return exit_status;
    if (a.quick && a.full)
        return lsi_cli_usage(
            "--quick and --full cannot be used together; give one of them");
    lsi_study r = {.quick = a.quick,
                   .runs = a.quick || a.full || rest == call->argc,
                   .again = a.again,
                   .only = a.only,
                   .compared = json_array()};
    ls_status status = LS_OK;
    for (int i = rest; i < call->argc && status == LS_OK; i++)
        status = read_run(&r, call->argv[i]);
    if (status == LS_OK)
        status = make_report(&r, &a, data);
    lsi_document_free(&r.document);
    json_decref(r.measured);
    json_decref(r.peers);
    json_decref(r.compared);
    if (status != LS_OK)
        return lsi_cli_error();
    if (r.ended_by != 0)
        return 128 + r.ended_by;
    return r.failed > 0 ? LSI_EXIT_ERROR : 0;
}

const lsi_command lsi_command_report = {
    .name = "report",
    .summary = "Measure the cost of training, and write a report",
    .arguments = "[FILE...]",
    .text =
        "Runs the benchmarks of this program one after another, and writes a "
        "report as index.html and report.md. The plots are part of index.html, "
        "so index.html can be copied without other files. The report describes "
        "the machine, and contains the commands, tables, plots and findings. "
        "Results in DIR/rows are not measured again, so the same command "
        "continues an interrupted report. FILE is a file that a training run "
        "wrote with --metrics, or a folder that contains metrics.jsonl. With "
        "FILE, the report compares these runs. It then measures nothing, "
        "unless --quick or --full is given. Plots need the program gnuplot.",
    LSI_COMMAND_OPTIONS(options),
    .run = run_report,
};

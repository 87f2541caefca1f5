/*
 * lockstep doctor DIR: compares the recordings of the ranks of each group, and
 * reports mismatches.
 */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/error.h"
#include "cli/commands/machine_selection.h"
#include "cli/frame/command.h"
#include "report/diagnosis.h"
#include "report/folder.h"
#include "report/paragraph.h"
#include "report/result.h"
#include "report/table.h"

typedef struct args {
    double late;
    const char *json;
    bool markdown;
} args;

#define ROW(...) LSI_OPTION(args, __VA_ARGS__)
static const lsi_option options[] = {
    ROW(late, REAL, "late", 0, "SECONDS", "1",
        "report a rank as late if other ranks wait this long for it", .min = 0,
        .max = 1e9),
    LSI_JSON_ROW(json),
    LSI_MARKDOWN_ROW(markdown),
};

static const char text[] =
    "DIR is the folder that LOCKSTEP_RECORD named during the run. Each rank "
    "writes its record there when its group fails, and when it receives "
    "SIGUSR1. If it finds no problem, it also says whether this machine has a "
    "selection table of `lockstep tune`. The exit status is 0 if no problem "
    "was found, 1 if one was "
    "found, and 2 if the files cannot be read.";

/* ---- the files ----------------------------------------------------------- */

typedef struct traces {
    lsi_trace **all;
    size_t n;
} traces;

/* Orders by job, group and rank. */
static int by_group(const void *a, const void *b)
{
    const lsi_trace *x = *(lsi_trace *const *)a, *y = *(lsi_trace *const *)b;
    const int job = strcmp(x->job, y->job);
    if (job != 0)
        return job;
    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    return x->rank - y->rank;
}

static ls_status read_found(const glob_t *found, traces *out)
{
    out->all = calloc(found->gl_pathc, sizeof(lsi_trace *));
    if (out->all == NULL)
        return lsi_fail(LS_ERR_MEMORY, "not enough memory for the records");
    for (; out->n < found->gl_pathc; out->n++)
        LS_TRY(lsi_trace_read(found->gl_pathv[out->n], &out->all[out->n]));
    qsort(out->all, out->n, sizeof(lsi_trace *), by_group);
    for (size_t i = 1; i < out->n; i++)
        if (strcmp(out->all[i - 1]->job, out->all[i]->job) == 0 &&
            out->all[i - 1]->group == out->all[i]->group &&
            out->all[i - 1]->size != out->all[i]->size)
            return lsi_fail(
                LS_ERR_FORMAT,
                "the records of job %s contradict each other: group %lld has "
                "%d ranks in one record and %d in another. Remove the records "
                "that are not from this run",
                out->all[i]->job, (long long)out->all[i]->group,
                out->all[i - 1]->size, out->all[i]->size);
    return LS_OK;
}

static ls_status read_folder(const char *folder, traces *out)
{
    struct stat info;
    glob_t found = {0};
    if (stat(folder, &info) != 0)
        return lsi_fail_errno(LS_ERR_IO, "cannot read '%s'", folder);
    if (!S_ISDIR(info.st_mode))
        return lsi_fail(LS_ERR_IO, "'%s' is not a folder", folder);
    LS_TRY(lsi_find_files(folder, "*.json", &found));
    if (found.gl_pathc == 0)
        return lsi_fail(
            LS_ERR_IO,
            "'%s' contains no records (*.json); give the folder that "
            "LOCKSTEP_RECORD named during the run",
            folder);
    const ls_status status = read_found(&found, out);
    globfree(&found);
    return status;
}

static void free_traces(traces *some)
{
    for (size_t i = 0; i < some->n; i++)
        lsi_trace_free(&some->all[i]);
    free(some->all);
}

/* ---- printing ------------------------------------------------------------ */

/* The column "host" is left out if all ranks are on one host. */
static const lsi_column rank_columns[] = {
    LSI_COLUMN(TEXT, "host"),
    LSI_COLUMN(INT, "rank"),
    LSI_COLUMN(INT, "pid"),
    LSI_COLUMN(TEXT, "state"),
    LSI_COLUMN(INT, "done", "done #"),
    LSI_COLUMN(TEXT, "in"),
    LSI_COLUMN(REAL, "waited", "for", .unit = "s", .decimals = 3),
    LSI_COLUMN(REAL, "behind", "later than the first rank", .unit = "us",
               .decimals = 1),
};

enum { RANK_COLUMNS = sizeof(rank_columns) / sizeof(rank_columns[0]) };

static const lsi_column finding_columns[] = {
    LSI_COLUMN(TEXT, "job"),     LSI_COLUMN(INT, "group"),
    LSI_COLUMN(INT, "ranks"),    LSI_COLUMN(INT, "last_completed"),
    LSI_COLUMN(TEXT, "finding"), LSI_COLUMN(INT, "sequence"),
    LSI_COLUMN(TEXT, "text"),
};

static void add_finding(lsi_table *table, const lsi_diagnosis *d,
                        const lsi_finding *finding)
{
    lsi_table_row(table);
    lsi_table_text(table, "job", d->newest->job);
    lsi_table_int(table, "group", d->newest->group);
    lsi_table_int(table, "ranks", d->size);
    lsi_table_int(table, "last_completed", d->last_completed);
    lsi_table_text(table, "finding", lsi_finding_name(finding->kind));
    lsi_table_int(table, "sequence", finding->sequence);
    lsi_table_text(table, "text", finding->text);
}

static void add_own_words(lsi_table *table, const lsi_trace *trace)
{
    const lsi_trace_call *call = lsi_trace_unfinished(&trace->collectives);
    if (call == NULL)
        call = lsi_trace_unfinished(&trace->messages);
    if (call == NULL)
        return;
    char in[160];
    snprintf(in, sizeof(in), "#%lld %s", (long long)call->sequence, call->call);
    lsi_table_text(table, "in", in);
    if (call->began_ns != 0)
        lsi_table_real(table, "waited", lsi_trace_waited(trace, call));
}

static bool has_one_host(const lsi_diagnosis *d)
{
    const lsi_trace_rank *view = d->newest->ranks;
    for (int r = 1; r < d->size; r++)
        if (strcmp(view[r].host, view[0].host) != 0)
            return false;
    return true;
}

static void add_rank(lsi_table *table, const lsi_diagnosis *d, int rank)
{
    const lsi_trace *trace = d->trace[rank];
    const lsi_trace_rank *view = &d->newest->ranks[rank];
    lsi_table_row(table);
    if (!has_one_host(d))
        lsi_table_text(table, "host", view->host);
    lsi_table_int(table, "rank", rank);
    lsi_table_int(table, "pid", view->pid);
    lsi_table_text(table, "state",
                   trace == NULL                 ? view->presence
                   : trace->failure.kind != NULL ? trace->failure.kind
                                                 : "well");
    lsi_table_int(table, "done",
                  trace == NULL ? view->completed : trace->completed);
    if (d->timed != 0)
        lsi_table_real(table, "behind", d->behind_us[rank]);
    if (trace != NULL)
        add_own_words(table, trace);
}

static void print_head(const lsi_diagnosis *d)
{
    char when[32] = "";
    const time_t seconds = (time_t)(d->newest->wall_ns / 1000000000);
    struct tm local;
    int files = 0;
    for (int r = 0; r < d->size; r++)
        files += d->trace[r] != NULL;
    if (localtime_r(&seconds, &local) != NULL)
        strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &local);
    printf("Job %s", d->newest->job);
    if (d->newest->group != 0)
        printf(", group %llx", (unsigned long long)d->newest->group);
    printf(": records of %d of %d ranks, the newest from %s\n", files, d->size,
           when);
}

static void print_last_completed(const lsi_diagnosis *d)
{
    const lsi_trace_call *call = NULL;
    for (int r = 0; r < d->size && call == NULL; r++)
        if (d->trace[r] != NULL)
            call = lsi_trace_find(d->trace[r], d->last_completed);
    printf("All ranks have completed call #%lld%s%s.\n\n",
           (long long)d->last_completed, call == NULL ? "" : " ",
           call == NULL ? "" : call->call);
}

static const char *level_of(const lsi_diagnosis *d, int rank)
{
    return d->trace[rank] == NULL ? NULL : d->trace[rank]->isa;
}

static bool is_first_of_level(const lsi_diagnosis *d, int rank)
{
    const char *own = level_of(d, rank);
    for (int r = 0; r < rank; r++)
        if (own == NULL ||
            (level_of(d, r) != NULL && strcmp(level_of(d, r), own) == 0))
            return false;
    return own != NULL;
}

/* Each level with its first rank: under fast bits, results depend on it. */
static void print_levels(const lsi_diagnosis *d)
{
    int levels = 0;
    for (int r = 0; r < d->size; r++)
        if (is_first_of_level(d, r))
            printf("%s%s from rank %d", levels++ == 0 ? "Instructions: " : ", ",
                   level_of(d, r), r);
    if (levels > 0 && d->newest->bits != NULL)
        printf("; %s bits", d->newest->bits);
    if (levels > 0)
        puts(".");
}

static ls_status print(const lsi_diagnosis *d)
{
    lsi_table *table = NULL;
    print_head(d);
    for (int i = 0; i < d->n_findings; i++)
        printf("%s: %s\n", lsi_finding_name(d->finding[i].kind),
               d->finding[i].text);
    if (d->n_findings == 0)
        puts("No problem found.");
    print_levels(d);
    print_last_completed(d);
    const size_t hidden = has_one_host(d) ? 1 : 0;
    LS_TRY(lsi_table_new(&table, rank_columns + hidden, RANK_COLUMNS - hidden));
    for (int r = 0; r < d->size; r++)
        add_rank(table, d, r);
    const ls_status status = lsi_table_print(table, stdout);
    lsi_table_free(&table);
    return status;
}

/* ---- the command --------------------------------------------------------- */

/* The next group: traces[*next] and those that follow it. */
static void diagnose_next(const traces *some, size_t *next, double late,
                          lsi_diagnosis *d)
{
    const lsi_trace *const *first = (const lsi_trace *const *)some->all + *next;
    size_t n = 0;
    while (*next + n < some->n && first[n]->group == first[0]->group &&
           strcmp(first[n]->job, first[0]->job) == 0)
        n++;
    lsi_diagnose(first, n, late, d);
    *next += n;
}

static ls_status examine(const traces *some, const args *a, lsi_table *rows)
{
    static lsi_diagnosis d;
    for (size_t next = 0; next < some->n;) {
        const size_t before = next;
        diagnose_next(some, &next, a->late, &d);
        for (int i = 0; i < d.n_findings; i++)
            add_finding(rows, &d, &d.finding[i]);
        if (lsi_result_is_stdout(a->json))
            continue;
        if (before != 0)
            putchar('\n');
        LS_TRY(print(&d));
    }
    return LS_OK;
}

/* Nothing is wrong, so whoever asks may wonder about speed. */
static void tell_of_speed(void)
{
    char selection[LSI_SELECTION_TEXT];
    if (!lsi_machine_selection(selection))
        lsi_paragraph(stdout,
                      "\nThe collectives of this machine are not tuned. "
                      "Selection table: %s.",
                      selection);
}

static ls_status work(const lsi_invocation *call, const args *a,
                      const char *folder, bool *wrong)
{
    traces some = {0};
    lsi_table *rows = NULL;
    ls_status status = lsi_result_check(a->json);
    if (status == LS_OK)
        status = read_folder(folder, &some);
    if (status == LS_OK)
        status = LSI_TABLE_NEW(&rows, finding_columns);
    if (status == LS_OK)
        status = examine(&some, a, rows);
    if (status == LS_OK)
        status = lsi_cli_write_table(call, rows, a->json);
    if (status == LS_OK)
        *wrong = lsi_table_row_count(rows) != 0;
    if (status == LS_OK && !*wrong && !lsi_result_is_stdout(a->json))
        tell_of_speed();
    lsi_table_free(&rows);
    free_traces(&some);
    return status;
}

static int run_doctor(const lsi_invocation *call)
{
    args a;
    int status;
    bool wrong = false;
    const char *folder;
    if (!lsi_cli_parse_argument(call, &a, &folder, &status))
        return status;
    if (folder == NULL)
        return lsi_cli_usage("give one folder of records: the folder that "
                             "LOCKSTEP_RECORD named during the run");
    if (work(call, &a, folder, &wrong) != LS_OK)
        return lsi_cli_usage("%s", ls_last_error());
    return wrong ? LSI_EXIT_ERROR : 0;
}

const lsi_command lsi_command_doctor = {
    .name = "doctor",
    .summary = "Diagnose a hang or a failure from the ranks' records",
    .arguments = "DIR",
    .text = text,
    LSI_COMMAND_OPTIONS(options),
    .run = run_doctor,
};

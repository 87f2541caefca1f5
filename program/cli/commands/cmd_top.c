/* lockstep top: the current work of a running job's ranks. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/json.h"
#include "base/proc.h"
#include "cli/frame/command.h"
#include "launch/job_name.h"
#include "launch/live_pages.h"
#include "launch/running_jobs.h"
#include "report/profile_steps.h"
#include "report/progress.h"
#include "report/result.h"
#include "report/table.h"

enum { MOST_RANKS = 1024, TRIES = 40 };

typedef struct args {
    double interval;
    int64_t count;
    const char *json;
    bool markdown;
} args;

#define ROW(...) LSI_OPTION(args, __VA_ARGS__)
static const lsi_option options[] = {
    ROW(interval, REAL, "interval", 0, "S", "1", "seconds between updates",
        .min = 0.05, .max = 3600),
    ROW(count, INT, "count", 0, "N", "0",
        "number of updates to print; 0: until the job has ended", .min = 0,
        .max = 1e9),
    ROW(json, OUTPUT, "json", 0, "FILE", NULL,
        "write a line of JSON for each update; without FILE, print the lines "
        "instead of tables"),
    LSI_MARKDOWN_ROW(markdown),
};

static const lsi_column columns[] = {
    LSI_COLUMN(INT, "rank", "Rank"),
    LSI_COLUMN(INT, "pid", "PID"),
    LSI_COLUMN(INT, "step", "Step"),
    LSI_COLUMN(TEXT, "phase", "Phase"),
    LSI_COLUMN(REAL, "seconds", "For", .unit = "s", .decimals = 2),
    LSI_COLUMN(INT, "awaits", "Awaits rank"),
    LSI_COLUMN(REAL, "busy_ms", "Busy", .unit = "ms", .decimals = 1),
    LSI_COLUMN(REAL, "samples_per_second", "Samples/s", .decimals = 0),
    LSI_COLUMN(REAL, "waiting", "Waiting", .unit = "%", .decimals = 0),
    LSI_COLUMN(REAL, "memory_mb", "Memory", .unit = "MB", .decimals = 1),
    LSI_COLUMN(REAL, "peak_mb", "Peak", .unit = "MB", .decimals = 1),
};

typedef struct watched {
    pid_t pid;
    int rank;
    lsi_live_page *page; /* NULL: not open yet; see lsi_live_open */
    lsi_live_look now, before;
    bool again; /* `before` is valid */
} watched;

typedef struct view {
    const args *args;
    watched *all;
    size_t n;
    lsi_profile_slowest slowest; /* phase: of `phases` */
    const char *phases[LSI_PROFILE_PHASES];
    size_t n_phases;
    bool judged;
    FILE *lines; /* of --json, or NULL */
} view;

/* ---- the watched processes ----------------------------------------------- */

static ls_status add(view *v, pid_t pid, int rank)
{
    if (v->n == MOST_RANKS)
        return lsi_fail(LS_ERR_UNSUPPORTED,
                        "cannot watch a job with more than %d ranks",
                        MOST_RANKS);
    v->all[v->n++] = (watched){.pid = pid, .rank = rank};
    return LS_OK;
}

static ls_status add_job(view *v, const lsi_job_found *job)
{
    lsi_rank_found *ranks = NULL;
    size_t n = 0;
    LS_TRY(lsi_find_ranks(job->id, &ranks, &n));
    ls_status status = LS_OK;
    for (size_t i = 0; i < n && status == LS_OK; i++)
        status = add(v, ranks[i].pid, ranks[i].rank);
    free(ranks);
    return status;
}

static bool is_alive(pid_t pid)
{
    lsi_process_stat stat;
    return lsi_process_stat_read(pid, &stat) && stat.state != 'Z';
}

/* A process without a launcher of ours; `refusal`: why it is not in a job. */
static ls_status add_process(view *v, pid_t pid, const lsi_error *refusal)
{
    LS_TRY(add(v, pid, -1));
    const ls_status status = lsi_live_open(&v->all[0].page, pid);
    if (status == LS_ERR_NOT_FOUND)
        return lsi_fail(status, "%s; and %s", ls_last_error(), refusal->text);
    LS_TRY(status);
    v->all[0].rank = v->all[0].page->rank;
    return LS_OK;
}

static ls_status find(view *v, const char *name)
{
    lsi_job_found job;
    lsi_error refusal = {0};
    const ls_status status = lsi_error_keep(&refusal, lsi_find_job(name, &job));
    if (status == LS_OK)
        return add_job(v, &job);
    pid_t pid;
    return status == LS_ERR_NOT_FOUND && lsi_parse_pid(name, &pid) &&
                   is_alive(pid)
               ? add_process(v, pid, &refusal)
               : status;
}

static size_t drop_ended(view *v)
{
    size_t n = 0;
    for (size_t i = 0; i < v->n; i++)
        if (is_alive(v->all[i].pid))
            v->all[n++] = v->all[i];
        else
            lsi_live_close(&v->all[i].page);
    v->n = n;
    return n;
}

/* ---- reading the live pages ---------------------------------------------- */

static void wait_for(double seconds)
{
    const struct timespec time = {(time_t)seconds,
                                  (long)((seconds - (time_t)seconds) * 1e9)};
    (void)nanosleep(&time, NULL);
}

/* LS_ERR_FORMAT if a page has another version. *together: same step on all. */
static ls_status read_pages(view *v, bool *together)
{
    uint64_t steps = 0;
    *together = true;
    for (size_t i = 0; i < v->n; i++) {
        watched *const w = &v->all[i];
        if (w->page == NULL) {
            const ls_status status = lsi_live_open(&w->page, w->pid);
            if (status == LS_ERR_FORMAT)
                return status;
            if (status != LS_OK)
                continue;
        }
        lsi_live_read(w->page, &w->now);
        *together &= steps == 0 || w->now.steps == steps;
        steps = w->now.steps;
    }
    return LS_OK;
}

/* Reads the pages, if possible while all ranks are at the same step. */
static ls_status read_aligned_pages(view *v)
{
    bool together = false;
    for (size_t i = 0; i < v->n; i++) {
        v->all[i].before = v->all[i].now;
        v->all[i].again = v->all[i].now.steps != 0;
    }
    for (int i = 0; i < TRIES && !together; i++) {
        LS_TRY(read_pages(v, &together));
        if (!together)
            wait_for(0.001);
    }
    return LS_OK;
}

/* ---- the slowest rank ---------------------------------------------------- */

static size_t phase_of(view *v, const char *name)
{
    for (size_t i = 0; i < v->n_phases; i++)
        if (strcmp(v->phases[i], name) == 0)
            return i;
    if (v->n_phases == LSI_PROFILE_PHASES)
        return 0;
    v->phases[v->n_phases] = name;
    return v->n_phases++;
}

static size_t gather(view *v, lsi_profile_times *times,
                     const lsi_profile_times **of, int *ranks)
{
    size_t n = 0;
    v->n_phases = 0;
    for (size_t i = 0; i < v->n; i++) {
        const lsi_live_look *const now = &v->all[i].now;
        if (v->all[i].page == NULL || now->watched_ns == 0 ||
            v->all[i].before.watched_ns == 0)
            continue;
        times[n] = (lsi_profile_times){{0}};
        for (size_t p = 0; p < now->names; p++)
            times[n].busy[phase_of(v, now->name[p])] +=
                (int64_t)now->busy_ns[p];
        of[n] = &times[n];
        ranks[n++] = v->all[i].rank;
    }
    return n;
}

static ls_status judge(view *v)
{
    lsi_profile_times *const times = calloc(v->n + 1, sizeof(*times));
    const lsi_profile_times **const of = calloc(v->n + 1, sizeof(*of));
    int *const ranks = calloc(v->n + 1, sizeof(*ranks));
    int64_t *const spare = calloc(v->n + 1, sizeof(*spare));
    const bool there =
        times != NULL && of != NULL && ranks != NULL && spare != NULL;
    const size_t n = there ? gather(v, times, of, ranks) : 0;
    v->judged = n > 1;
    if (v->judged)
        v->slowest = lsi_profile_slowest_of(
            &(lsi_profile_comparison){of, ranks, spare, n, v->n_phases},
            v->all[0].now.steps);
    free(times);
    free(of);
    free(ranks);
    free(spare);
    return there ? LS_OK
                 : lsi_fail(LS_ERR_MEMORY,
                            "not enough memory to compare the ranks");
}

/* ---- showing ------------------------------------------------------------- */

static uint64_t waited(const lsi_live_look *l)
{
    return l->waited_ns + (l->waits_ns != 0 ? l->now_ns - l->waits_ns : 0);
}

static void add_rates(lsi_table *table, const watched *w)
{
    const lsi_live_look *const now = &w->now, *const before = &w->before;
    const double seconds = (double)(now->now_ns - before->now_ns) * 1e-9;
    if (!w->again || seconds <= 0)
        return;
    if (now->samples > 0)
        lsi_table_real(table, "samples_per_second",
                       (double)(now->samples - before->samples) / seconds);
    if (before->watched_ns != 0)
        lsi_table_real(table, "waiting",
                       (double)(waited(now) - waited(before)) * 1e-7 / seconds);
}

/* A long wait, of a process that reports only its waits. */
static void add_wait(lsi_table *table, const watched *w)
{
    const lsi_live_look *const now = &w->now, *const before = &w->before;
    if (now->waiting_ns == 0)
        return;
    if (now->awaits >= 0)
        lsi_table_int(table, "awaits", now->awaits);
    if (before->watched_ns == 0 && before->waiting_ns == now->waiting_ns)
        lsi_table_real(table, "waiting", 100);
}

static void add_row(lsi_table *table, const watched *w)
{
    const lsi_live_look *const now = &w->now;
    char text[LSI_LIVE_TEXT];
    uint64_t busy = 0;
    lsi_table_row(table);
    lsi_table_int(table, "rank", w->rank);
    lsi_table_int(table, "pid", w->pid);
    const double seconds = lsi_live_text(w->page == NULL ? NULL : now, text);
    if (text[0] != '\0')
        lsi_table_text(table, "phase", text);
    if (seconds >= 0)
        lsi_table_real(table, "seconds", seconds);
    if (w->page == NULL)
        return;
    for (size_t p = 0; p < now->names; p++)
        busy += now->busy_ns[p];
    lsi_table_int(table, "step", (int64_t)now->steps);
    if (w->before.watched_ns != 0)
        lsi_table_real(table, "busy_ms", (double)busy * 1e-6);
    if (now->steps > 0) {
        lsi_table_real(table, "memory_mb", (double)now->memory * 1e-6);
        lsi_table_real(table, "peak_mb", (double)now->peak * 1e-6);
    }
    add_rates(table, w);
    add_wait(table, w);
}

static json_t *slowest_json(const view *v)
{
    if (!v->judged)
        return json_null();
    return json_pack("{s:I, s:i, s:s, s:f}", "step",
                     (json_int_t)v->slowest.step, "rank", v->slowest.rank,
                     "phase", v->phases[v->slowest.phase], "phase_ms",
                     (double)v->slowest.ns * 1e-6);
}

/* The rows of the table, without the lines around them. */
static ls_status print_json(const view *v, const lsi_table *table)
{
    char *text = NULL;
    LS_TRY(lsi_table_dump(table, &text));
    json_t *const rows = json_loads(text, 0, NULL);
    free(text);
    json_t *const line =
        json_pack("{s:o, s:o}", "ranks", rows, "slowest", slowest_json(v));
    text = line != NULL ? lsi_json_dumps(line, JSON_COMPACT) : NULL;
    json_decref(line);
    if (text == NULL)
        return lsi_fail(LS_ERR_MEMORY, "not enough memory for a line of JSON");
    const bool put = fprintf(v->lines, "%s\n", text) >= 0;
    free(text);
    if (!put || fflush(v->lines) != 0)
        return lsi_fail_errno(LS_ERR_IO, "cannot write '%s'", v->args->json);
    return LS_OK;
}

static ls_status print_table(const view *v, const lsi_table *table)
{
    if (lsi_terminal_redraws(stdout))
        fputs("\033[H\033[J", stdout);
    LS_TRY(lsi_table_print(table, stdout));
    if (v->judged)
        printf("\nStep %" PRIu64 ": rank %d was the slowest. Its phase %s took "
               "%.1f ms longer than on the other ranks\n",
               v->slowest.step, v->slowest.rank, v->phases[v->slowest.phase],
               (double)v->slowest.ns * 1e-6);
    putchar('\n');
    return LS_OK;
}

static ls_status show(const view *v)
{
    lsi_table *table = NULL;
    LS_TRY(LSI_TABLE_NEW(&table, columns));
    for (size_t i = 0; i < v->n; i++)
        add_row(table, &v->all[i]);
    ls_status status = lsi_table_status(table);
    if (status == LS_OK && v->lines != NULL)
        status = print_json(v, table);
    if (status == LS_OK && v->lines != stdout)
        status = print_table(v, table);
    lsi_table_free(&table);
    fflush(stdout);
    return status;
}

/* ---- the command --------------------------------------------------------- */

static ls_status open_lines(view *v)
{
    const char *const path = v->args->json;
    if (path == NULL)
        return LS_OK;
    v->lines = lsi_result_is_stdout(path) ? stdout : fopen(path, "we");
    return v->lines != NULL
               ? LS_OK
               : lsi_fail_errno(LS_ERR_IO, "cannot write '%s'", path);
}

static ls_status watch(view *v)
{
    for (int64_t i = 0; v->args->count == 0 || i < v->args->count; i++) {
        if (i > 0)
            wait_for(v->args->interval);
        if (drop_ended(v) == 0)
            return LS_OK;
        LS_TRY(read_aligned_pages(v));
        LS_TRY(judge(v));
        LS_TRY(show(v));
    }
    return LS_OK;
}

static int run_top(const lsi_invocation *call)
{
    args a;
    int exit_status;
    const char *name;
    if (!lsi_cli_parse_argument(call, &a, &name, &exit_status))
        return exit_status;
    if (name == NULL)
        return lsi_cli_usage("give one job (`lockstep jobs` lists the jobs) or "
                             "the PID of a rank");
    view v = {.args = &a, .all = calloc(MOST_RANKS, sizeof(watched))};
    ls_status status =
        v.all != NULL
            ? find(&v, name)
            : lsi_fail(LS_ERR_MEMORY, "not enough memory to watch the ranks");
    if (status == LS_OK)
        status = open_lines(&v);
    if (status == LS_OK)
        status = watch(&v);
    for (size_t i = 0; i < v.n; i++)
        lsi_live_close(&v.all[i].page);
    free(v.all);
    if (v.lines != NULL && v.lines != stdout)
        fclose(v.lines);
    return status == LS_OK ? 0 : lsi_cli_error();
}

const lsi_command lsi_command_top = {
    .name = "top",
    .summary = "Show what the ranks of a running job are doing",
    .arguments = "JOB",
    .text = LSI_JOB_NAME_HELP
    "For a rank that another launcher has started, give its PID; the table "
    "then shows only this rank. Watching does not stop the ranks. Ranks record "
    "phases and waiting times only while they are watched, so the first update "
    "does not show these values. If a rank has waited for 0.1 s or longer, the "
    "table shows the operation, the awaited rank and the time. This works for "
    "any program that has opened a group. Busy is the duration of the last "
    "step without the time spent waiting for other ranks. Samples are the "
    "weights that the program passes to ls_ddp_backward: tokens or images.",
    LSI_COMMAND_OPTIONS(options),
    .run = run_top,
};

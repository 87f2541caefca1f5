/* The report of a run; see run_report.h. */
#include "launch/run_report.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/signal_name.h"

void lsi_run_report_open(lsi_run_report *report, const char *path)
{
    *report = (lsi_run_report){.path = path};
    if (path == NULL)
        return;
    report->started = lsi_wall_clock_seconds();
    report->attempts = json_array();
}

/* ---- values ----------------------------------------------------------- */

static json_t *text_or_null(const char *text)
{
    return text == NULL || text[0] == '\0' ? json_null()
                                           : lsi_json_text(text, strlen(text));
}

static json_t *lines_of(const char *text, size_t bytes)
{
    json_t *const lines = json_array();
    const char *const end = text + bytes;
    while (text < end) {
        const char *const stop = memchr(text, '\n', (size_t)(end - text));
        const size_t length = (size_t)((stop == NULL ? end : stop) - text);
        json_array_append_new(lines, lsi_json_text(text, length));
        text += length + 1;
    }
    return lines;
}

/* "2026-01-31T12:00:00.123Z" */
static json_t *time_of(double seconds)
{
    char text[64];
    const time_t whole = (time_t)seconds;
    struct tm parts;
    gmtime_r(&whole, &parts);
    const size_t length =
        strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(text + length, sizeof(text) - length, ".%03dZ",
             (int)((seconds - (double)whole) * 1e3) % 1000);
    return json_string(text);
}

static json_t *end_of(const lsi_ending *e, const lsi_process_end *end)
{
    const int rank = lsi_processes_rank(&e->attempt->ranks, end->rank);
    const bool killed = WIFSIGNALED(end->status);
    const int number = killed ? WTERMSIG(end->status) : 0;
    const lsi_signal_text name = lsi_signal_name(number);
    return json_pack(
        "{s:i,s:s,s:i,s:o,s:o,s:o,s:b}", "rank", rank, "host", e->host, "pid",
        (int)end->pid, "exit_status",
        killed ? json_null() : json_integer(WEXITSTATUS(end->status)), "signal",
        killed ? json_integer(number) : json_null(), "signal_name",
        killed ? json_string(name.text) : json_null(), "core_dumped",
        killed && WCOREDUMP(end->status));
}

/* ---- attempts --------------------------------------------------------- */

static json_t *first_failure(const lsi_ending *e)
{
    if (e->first == NULL)
        return json_null();
    json_t *const json = end_of(e, &e->first->end);
    json_object_set_new(json, "out_of_memory",
                        json_boolean(lsi_ending_is_oom(e)));
    json_object_set_new(json, "oom_kills",
                        e->oom_known ? json_integer((json_int_t)e->oom_kills)
                                     : json_null());
    json_object_set_new(json, "message", text_or_null(e->message));
    json_object_set_new(json, "stderr",
                        e->tail_known ? lines_of(e->tail, e->tail_bytes)
                                      : json_null());
    json_object_set(json, "error_file",
                    e->error_file != NULL ? e->error_file : json_null());
    json_object_set_new(json, "backtrace",
                        e->backtrace != NULL
                            ? lines_of(e->backtrace, strlen(e->backtrace))
                            : json_null());
    json_object_set_new(json, "logs", text_or_null(e->logs));
    return json;
}

static json_t *other_failures(const lsi_ending *e)
{
    const lsi_attempt *const a = e->attempt;
    json_t *const list = json_array();
    for (int i = 0; i < a->n_failures; i++) {
        const lsi_rank_failure *const other = &a->failures[i];
        if (other == e->first)
            continue;
        json_t *const json = end_of(e, &other->end);
        json_object_set_new(json, "ended_by_launcher",
                            json_boolean(other->by_launcher));
        json_object_set_new(
            json, "consequence",
            json_boolean(e->first != NULL || a->elsewhere[0] != '\0'));
        json_array_append_new(list, json);
    }
    return list;
}

/* Ranks for which a failed rank may have waited in vain. */
static json_t *ended_before(const lsi_attempt *a)
{
    json_t *const list = json_array();
    for (int i = 0; i < a->ranks.setup->n; i++) {
        if (a->culprit >= 0 && a->ended_before[i])
            json_array_append_new(
                list, json_integer(lsi_processes_rank(&a->ranks, i)));
    }
    return list;
}

static const char *reason_of(const lsi_attempt *a, char text[64])
{
    if (a->phase == LSI_PHASE_NOT_STARTED)
        return "could not be started";
    if (a->timed_out)
        return "timeout";
    if (a->asked_by != 0) {
        snprintf(text, 64, "asked to end by %s",
                 lsi_signal_name(a->asked_by).text);
        return text;
    }
    return a->verdict > 0 ? "failure" : "success";
}

static json_t *command_of(char *const *argv)
{
    json_t *const list = json_array();
    for (; *argv != NULL; argv++)
        json_array_append_new(list, lsi_json_text(*argv, strlen(*argv)));
    return list;
}

static int status_of(const lsi_attempt *a)
{
    return a->verdict < 0 ? 0 : a->verdict;
}

void lsi_run_report_add(lsi_run_report *report, const lsi_ending *e)
{
    const lsi_attempt *const a = e->attempt;
    char reason[64];
    assert(lsi_attempt_has_ended(a));
    if (report->attempts == NULL)
        return;
    json_array_append_new(
        report->attempts,
        json_pack("{s:i,s:s,s:o,s:o,s:i,s:s,s:o,s:o,s:o,s:o}", "attempt",
                  a->ranks.attempt, "job", a->ranks.job, "started",
                  time_of(a->started), "ended",
                  time_of(lsi_wall_clock_seconds()), "exit_status",
                  status_of(a), "reason", reason_of(a, reason), "first_failure",
                  first_failure(e), "ended_before", ended_before(a), "others",
                  other_failures(e), "elsewhere", text_or_null(a->elsewhere)));
}

/* ---- the file --------------------------------------------------------- */

/* "-" is standard output. */
static ls_status put(const char *path, const char *text)
{
    if (strcmp(path, "-") != 0) {
        LS_TRY(lsi_make_parents(path));
        return lsi_atomic_file_put(path, text, strlen(text));
    }
    if (puts(text) < 0 || fflush(stdout) != 0)
        return lsi_fail_errno(LS_ERR_IO,
                              "cannot write the report to standard output");
    return LS_OK;
}

ls_status lsi_run_report_write(lsi_run_report *report, const lsi_attempt *last,
                               int exit_status)
{
    const lsi_launch_ranks *const setup = last->ranks.setup;
    char host[65] = "", reason[64];
    if (report->path == NULL)
        return LS_OK;
    (void)gethostname(host, sizeof(host) - 1);
    const double ended = lsi_wall_clock_seconds();
    json_t *const json =
        json_pack("{s:s,s:i,s:o,s:s,s:o,s:i,s:i,s:o,s:o,s:f,s:i,s:s,s:o?}",
                  "format", "lockstep run report", "version", 1, "run",
                  text_or_null(lsi_processes_run_id(&last->ranks)), "host",
                  host, "command", command_of(setup->argv), "ranks", setup->n,
                  "max_restarts", last->limits->max_restarts, "started",
                  time_of(report->started), "ended", time_of(ended), "seconds",
                  ended - report->started, "exit_status", exit_status, "reason",
                  reason_of(last, reason), "attempts", report->attempts);
    report->attempts = NULL;
    char *const text =
        json == NULL ? NULL : lsi_json_dumps(json, JSON_INDENT(2));
    json_decref(json);
    if (text == NULL)
        return lsi_fail(LS_ERR_MEMORY, "not enough memory for the report");
    const ls_status status = put(report->path, text);
    free(text);
    return status;
}

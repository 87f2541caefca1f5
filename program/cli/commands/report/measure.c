/*
 * Running measurements one after the other, each as a separate process. The
 * state of each is in rows/measured.json, which is written before it begins and
 * when it has ended. So a report that was killed knows which measurement was
 * not whole.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/busy.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/json.h"
#include "base/program.h"
#include "cli/commands/report/report.h"
#include "launch/spawn.h"
#include "report/progress.h"
#include "report/result.h"
#include "train/stop.h"

static const char measured_path[] = "rows/measured.json";

enum { LINE_BYTES = 1024, MOST_WORDS = 64 };

/* ---- what is known ------------------------------------------------------- */

/* Whether the words of a list, if there is one, name either. */
static bool names_either(const char *list, const char *section, const char *id)
{
    while (list != NULL && *list != '\0') {
        const size_t length = strcspn(list, ",");
        if ((strlen(section) == length &&
             strncmp(list, section, length) == 0) ||
            (id != NULL && strlen(id) == length &&
             strncmp(list, id, length) == 0))
            return true;
        list += length + (list[length] == ',');
    }
    return false;
}

static const char *words_of(const lsi_study *r, const lsi_measurement *m)
{
    return r->quick && m->quick != NULL ? m->quick : m->full;
}

char *lsi_study_command(const lsi_study *r, const lsi_measurement *m)
{
    char path[LINE_BYTES], *text = NULL;
    static const char *const flags[] = {[LSI_ROWS_JSON] = " --json=",
                                        [LSI_ROWS_METRICS] = " --metrics ",
                                        [LSI_ROWS_OUTPUT] = " > "};
    const bool data = m->takes_data && r->data != NULL;
    lsi_rows_path(m, path, sizeof(path));
    if (asprintf(&text, "%s%s%s%s%s", words_of(r, m), data ? " --data " : "",
                 data ? r->data : "", flags[m->kind], path) < 0)
        return NULL;
    return text;
}

static const char *text_of(const lsi_study *r, const char *id, const char *key)
{
    return lsi_string_at(json_object_get(r->measured, id), key);
}

const char *lsi_measured_status(const lsi_study *r, const char *id)
{
    return text_of(r, id, "status");
}

/* Rows without a note come from elsewhere, and are used as they are. */
static bool is_there(const lsi_study *r, const lsi_measurement *m)
{
    char path[LINE_BYTES];
    lsi_rows_path(m, path, sizeof(path));
    if (access(path, F_OK) != 0)
        return false;
    if (json_object_get(r->measured, m->id) == NULL)
        return true;
    char *const line = lsi_study_command(r, m);
    const bool same =
        line != NULL && strcmp(line, text_of(r, m->id, "command")) == 0;
    free(line);
    return strcmp(lsi_measured_status(r, m->id), "ok") == 0 &&
           (same || !r->runs);
}

static bool is_wanted(const lsi_study *r, const lsi_section *s,
                      const lsi_measurement *m)
{
    if (r->only != NULL && !names_either(r->only, s->id, m->id))
        return false;
    return !is_there(r, m) || names_either(r->again, s->id, m->id);
}

/* ---- its file ------------------------------------------------------------ */

static ls_status check_rows(const lsi_study *r, const lsi_section *s,
                            const lsi_measurement *m)
{
    char path[LINE_BYTES];
    json_t *rows = NULL;
    if (!is_there(r, m) || (r->runs && is_wanted(r, s, m)))
        return LS_OK;
    lsi_rows_path(m, path, sizeof(path));
    const ls_status status = lsi_rows_read(path, m->kind, &rows);
    json_decref(rows);
    if (status != LS_ERR_FORMAT)
        return status;
    return lsi_fail(
        status,
        "%s; remove the file, or measure its results again with --again %s",
        ls_last_error(), m->id);
}

ls_status lsi_study_open(lsi_study *r)
{
    json_error_t error;
    if (access(measured_path, F_OK) == 0) {
        r->measured = json_load_file(measured_path, 0, &error);
        if (!json_is_object(r->measured))
            return lsi_fail(
                LS_ERR_FORMAT,
                "'%s' is not a valid list of measurements; remove this file",
                measured_path);
    } else {
        r->measured = json_object();
    }
    for (size_t i = 0; i < lsi_sections_count; i++) {
        const lsi_section *const s = lsi_sections[i];
        for (size_t k = 0; k < s->n; k++)
            LS_TRY(check_rows(r, s, &s->measurements[k]));
    }
    return LS_OK;
}

/* CPUs that other processes use now. */
static double cpus_of_others(void)
{
    double others = 0;
    int cpus = 0;
    (void)lsi_busy_now(&others, &cpus);
    return others;
}

static ls_status note(lsi_study *r, const lsi_measurement *m,
                      const char *status, double seconds)
{
    char *const line = lsi_study_command(r, m);
    json_object_set_new(
        r->measured, m->id,
        json_pack("{s:s, s:s, s:f, s:f, s:I}", "command",
                  line != NULL ? line : "", "status", status, "seconds",
                  seconds, "others_cpus", cpus_of_others(), "ended",
                  (json_int_t)(lsi_wall_clock_ns() / 1000000000U)));
    free(line);
    char *const text = lsi_json_dumps(r->measured, JSON_INDENT(1));
    if (text == NULL)
        return lsi_fail(LS_ERR_MEMORY,
                        "not enough memory to write the list of measurements");
    const ls_status written =
        lsi_result_replace(measured_path, text, strlen(text));
    free(text);
    return written;
}

/* ---- one process --------------------------------------------------------- */

typedef struct process {
    char own[LSI_PROGRAM_BYTES], line[2 * LINE_BYTES], log[LINE_BYTES];
    char *argv[MOST_WORDS];
    int null, output, error;
} process;

static void split(char *line, char **argv)
{
    size_t n = 1;
    char *rest = NULL;
    for (char *word = strtok_r(line, " ", &rest);
         word != NULL && n + 1 < MOST_WORDS; word = strtok_r(NULL, " ", &rest))
        argv[n++] = word;
    argv[n] = NULL;
}

/* A path of the data may have blanks, and is a word. */
static void add_words(process *p, const lsi_study *r, const lsi_measurement *m)
{
    static char data[] = "--data";
    static char metrics[] = "--metrics";
    static char no_save[] = "--no-save"; /* of what trains */
    size_t n = 1;
    snprintf(p->line, sizeof(p->line), "%s", words_of(r, m));
    split(p->line, p->argv);
    while (p->argv[n] != NULL)
        n++;
    if (m->takes_data && r->data != NULL) {
        p->argv[n++] = data;
        p->argv[n++] = (char *)(uintptr_t)r->data;
    }
    if (m->kind != LSI_ROWS_OUTPUT) {
        const bool json = m->kind == LSI_ROWS_JSON;
        char *const word = p->line + strlen(words_of(r, m)) + 1;
        char *const path = stpcpy(word, json ? "--json=" : "");
        lsi_rows_path(m, path, sizeof(p->line) - (size_t)(path - p->line));
        if (!json)
            p->argv[n++] = metrics;
        p->argv[n++] = word;
    }
    if (m->kind == LSI_ROWS_METRICS)
        p->argv[n++] = no_save;
    p->argv[n] = NULL;
}

static ls_status prepare(process *p, const lsi_study *r,
                         const lsi_measurement *m)
{
    const mode_t mode = 0666;
    char path[LINE_BYTES];
    LS_TRY(lsi_program_path(p->own));
    p->argv[0] = p->own;
    add_words(p, r, m);
    lsi_rows_path(m, path, sizeof(path));
    snprintf(p->log, sizeof(p->log), "rows/%s.log", m->id);
    (void)unlink(path); /* not to be mistaken for new rows */
    p->null = open("/dev/null", O_RDWR | O_CLOEXEC);
    p->error = open(p->log, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    p->output = m->kind == LSI_ROWS_OUTPUT
                    ? open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, mode)
                    : dup(p->null);
    if (p->null < 0 || p->error < 0 || p->output < 0)
        return lsi_fail_errno(LS_ERR_IO, "cannot write '%s'", p->log);
    return LS_OK;
}

static void close_all(process *p)
{
    close(p->null);
    close(p->output);
    close(p->error);
}

/*
 * Waits for the end of a process. A signal that ends us ends it first, gently.
 */
static int wait_for(pid_t pid)
{
    const double patience = 20;
    const struct timespec pause = {.tv_nsec = 20000000};
    double asked = 0;
    int ended = 0;
    while (waitpid(pid, &ended, WNOHANG) == 0) {
        const double now = lsi_clock_seconds();
        const int signal = lsi_stop_signal(atomic_load(lsi_stop_requests()));
        if (signal != 0 && asked == 0) {
            kill(-pid, SIGINT);
            asked = now;
        } else if (asked > 0 && now - asked > patience) {
            kill(-pid, SIGKILL);
        }
        nanosleep(&pause, NULL);
    }
    return ended;
}

/* The last line of a log. */
static void last_line(int fd, char *out, size_t bytes)
{
    char text[LINE_BYTES];
    const off_t size = lseek(fd, 0, SEEK_END);
    const off_t from = size > LINE_BYTES - 1 ? size - (LINE_BYTES - 1) : 0;
    const ssize_t n = pread(fd, text, LINE_BYTES - 1, from);
    text[n > 0 ? n : 0] = '\0';
    size_t length = strlen(text);
    while (length > 0 && text[length - 1] == '\n')
        text[--length] = '\0';
    const char *const line = strrchr(text, '\n');
    snprintf(out, bytes, "%s", line != NULL ? line + 1 : text);
}

static ls_status run_process(process *p, char *status, size_t bytes)
{
    pid_t pid = 0;
    int error_number = 0;
    sigset_t none;
    sigemptyset(&none);
    const lsi_spawn what = {.argv = p->argv,
                            .environment = environ,
                            .mask = &none,
                            .input = p->null,
                            .output = p->output,
                            .error = p->error,
                            .orphan_guard = -1};
    LS_TRY(lsi_spawn_process(&what, &pid, &error_number));
    if (error_number != 0) {
        errno = error_number;
        return lsi_fail_errno(LS_ERR_SYSTEM, "cannot run '%s'", p->own);
    }
    const int ended = wait_for(pid);
    char words[LINE_BYTES];
    last_line(p->error, words, sizeof(words));
    if (lsi_stop_signal(atomic_load(lsi_stop_requests())) != 0)
        snprintf(status, bytes, "interrupted");
    else if (WIFEXITED(ended) && WEXITSTATUS(ended) == 0)
        snprintf(status, bytes, "ok");
    else if (WIFEXITED(ended))
        snprintf(status, bytes, "failed with exit status %d: %s",
                 WEXITSTATUS(ended), words);
    else
        snprintf(status, bytes, "ended by signal %d: %s", WTERMSIG(ended),
                 words);
    return LS_OK;
}

/* Runs a measurement; after a success, removes its log. */
static ls_status measure(lsi_study *r, const lsi_measurement *m)
{
    char status[2 * LINE_BYTES] = "not run";
    process p = {.null = -1, .output = -1, .error = -1};
    const double begin = lsi_clock_seconds();
    LS_TRY(note(r, m, "not ended", 0));
    ls_status result = prepare(&p, r, m);
    if (result == LS_OK)
        result = run_process(&p, status, sizeof(status));
    close_all(&p);
    LS_TRY(result);
    const bool ok = strcmp(status, "ok") == 0;
    if (ok)
        (void)unlink(p.log);
    else
        fprintf(stderr, "report: %s %s\n", m->id, status);
    r->failed += !ok && strcmp(status, "interrupted") != 0;
    return note(r, m, status, lsi_clock_seconds() - begin);
}

/* ---- all of them --------------------------------------------------------- */

static int seconds_of(const lsi_study *r, const lsi_measurement *m)
{
    return r->quick ? m->quick_seconds : m->full_seconds;
}

typedef struct remaining {
    int n, all, seconds;
} remaining;

static remaining count_remaining(const lsi_study *r)
{
    remaining left = {0};
    for (size_t i = 0; i < lsi_sections_count; i++) {
        const lsi_section *const s = lsi_sections[i];
        for (size_t k = 0; k < s->n; k++) {
            const bool wanted = is_wanted(r, s, &s->measurements[k]);
            left.n += wanted;
            left.all++;
            if (wanted)
                left.seconds += seconds_of(r, &s->measurements[k]);
        }
    }
    return left;
}

static void print_begin(const remaining *left)
{
    char text[LSI_TIME_TEXT];
    lsi_time_text(text, left->seconds);
    fprintf(stderr,
            "report: running %d of %d measurements takes about %s on two idle "
            "cores; after Ctrl-C, the same command continues with the results "
            "so far\n",
            left->n, left->all, text);
}

static void print_measurement(const lsi_study *r, const lsi_measurement *m,
                              const remaining *all, int done, int seconds)
{
    char text[LSI_TIME_TEXT];
    char *const line = lsi_study_command(r, m);
    lsi_time_text(text, all->seconds - seconds);
    fprintf(stderr, "report: %d/%d, %s left: lockstep %s\n", done + 1, all->n,
            text, line != NULL ? line : m->id);
    free(line);
}

ls_status lsi_study_measure(lsi_study *r)
{
    const remaining all = count_remaining(r);
    int done = 0, seconds = 0;
    if (all.n == 0)
        return LS_OK;
    print_begin(&all);
    lsi_stop_listen();
    for (size_t i = 0; i < lsi_sections_count; i++) {
        const lsi_section *const s = lsi_sections[i];
        for (size_t k = 0; k < s->n; k++) {
            const lsi_measurement *const m = &s->measurements[k];
            if (!is_wanted(r, s, m))
                continue;
            print_measurement(r, m, &all, done++, seconds);
            seconds += seconds_of(r, m);
            LS_TRY(measure(r, m));
            r->ended_by = lsi_stop_signal(atomic_load(lsi_stop_requests()));
            if (r->ended_by != 0)
                return LS_OK;
        }
    }
    return LS_OK;
}

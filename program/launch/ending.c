/* The end of an attempt; see ending.h. */
#include "launch/ending.h"

#include <assert.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/signal_name.h"
#include "launch/agent.h"
#include "launch/backtrace.h"
#include "launch/python.h"

enum { TAIL_LINES = 20, TEXT_BYTES = 700 };

/* ---- finding out ------------------------------------------------------ */

static void find_tail(lsi_ending *e)
{
    const lsi_tag *const errors =
        lsi_processes_errors(&e->attempt->ranks, e->first->end.rank);
    e->tail_known = errors != NULL;
    if (errors == NULL)
        return;
    e->tail = lsi_tag_tail(errors, TAIL_LINES, &e->tail_bytes);
    size_t bytes;
    const char *const all = lsi_tag_tail(errors, LSI_TAIL_BYTES, &bytes);
    if (e->message[0] == '\0')
        (void)lsi_python_last_line(all, bytes, e->message, sizeof(e->message));
}

static void find_error_file(lsi_ending *e)
{
    char path[LSI_RANK_FILE_BYTES];
    lsi_processes_file(&e->attempt->ranks, e->first->end.rank, LSI_ERROR_FILE,
                       path);
    if (access(path, R_OK) == 0)
        (void)lsi_python_error_read(path, e->message, sizeof(e->message),
                                    &e->error_file);
}

static void find_oom(lsi_ending *e)
{
    uint64_t now;
    e->oom_known =
        e->attempt->oom_known &&
        lsi_cgroup_oom_kills("/proc/self/cgroup", "/sys/fs/cgroup", &now);
    if (e->oom_known && now > e->attempt->oom_before)
        e->oom_kills = now - e->attempt->oom_before;
}

/* Keeps the backtrace with the logs, if any. */
static void keep_backtrace(const char *crash_file, const char *text)
{
    char path[LSI_RANK_FILE_BYTES + 16];
    const char *const slash = strrchr(crash_file, '/');
    snprintf(path, sizeof(path), "%.*s/backtrace.txt",
             (int)(slash - crash_file), crash_file);
    FILE *const file = fopen(path, "we");
    if (file == NULL)
        return;
    const bool whole = fputs(text, file) >= 0;
    if (fclose(file) == 0 && whole)
        (void)unlink(crash_file);
}

static char *find_backtrace(const lsi_ending *e, const lsi_rank_failure *of,
                            double until)
{
    char path[LSI_RANK_FILE_BYTES];
    const lsi_attempt *const a = e->attempt;
    const double left = until - lsi_clock_seconds();
    lsi_processes_file(&a->ranks, of->end.rank, LSI_CRASH_FILE, path);
    if (left <= 0)
        return NULL;
    char *const text = lsi_backtrace_of(path, of->end.pid, left);
    if (text != NULL && a->ranks.wanted->log_folder != NULL)
        keep_backtrace(path, text);
    return text;
}

/* This host is silent in the meantime, so the time is limited. */
static double backtrace_seconds(const lsi_attempt *a)
{
    static const double most = 20;
    const lsi_launch_nodes *const nodes = a->nodes;
    const double silence = nodes == NULL ? most : lsi_agent_silence(nodes) / 2;
    return silence < most ? silence : most;
}

/* Finds the backtrace of the first failure; with logs, also of the others. */
static void find_backtraces(lsi_ending *e)
{
    const lsi_attempt *const a = e->attempt;
    const double until = lsi_clock_seconds() + backtrace_seconds(a);
    e->backtrace = find_backtrace(e, e->first, until);
    for (int i = 0; i < a->n_failures && a->ranks.wanted->log_folder != NULL;
         i++) {
        if (&a->failures[i] != e->first)
            free(find_backtrace(e, &a->failures[i], until));
    }
}

static int number_of_first(const lsi_ending *e)
{
    return lsi_processes_rank(&e->attempt->ranks, e->first->end.rank);
}

static const lsi_rank_failure *find_first(const lsi_attempt *a)
{
    for (int i = 0; i < a->n_failures; i++) {
        if (a->failures[i].end.rank == a->culprit)
            return &a->failures[i];
    }
    return NULL;
}

void lsi_ending_find(lsi_ending *e, const lsi_attempt *a)
{
    assert(lsi_attempt_has_ended(a));
    *e = (lsi_ending){.attempt = a};
    if (a->elsewhere[0] == '\0')
        e->first = find_first(a);
    if (gethostname(e->host, sizeof(e->host) - 1) != 0)
        strcpy(e->host, "localhost");
    if (e->first == NULL)
        return;
    find_error_file(e);
    find_tail(e);
    find_oom(e);
    find_backtraces(e);
    if (a->ranks.wanted->log_folder != NULL)
        snprintf(e->logs, sizeof(e->logs), "%.4000s/%.300s/%d/%d",
                 a->ranks.wanted->log_folder, lsi_processes_run_id(&a->ranks),
                 a->ranks.attempt, number_of_first(e));
}

void lsi_ending_free(lsi_ending *e)
{
    json_decref(e->error_file);
    free(e->backtrace);
    e->error_file = NULL;
    e->backtrace = NULL;
}

bool lsi_ending_is_oom(const lsi_ending *e)
{
    return e->oom_kills > 0 && WIFSIGNALED(e->first->end.status) &&
           WTERMSIG(e->first->end.status) == SIGKILL;
}

/* ---- saying so -------------------------------------------------------- */

static void describe(int status, char *out, size_t bytes)
{
    if (WIFSIGNALED(status))
        snprintf(out, bytes, "killed by signal %d (%s)%s", WTERMSIG(status),
                 lsi_signal_name(WTERMSIG(status)).text,
                 WCOREDUMP(status) ? ", core dumped" : "");
    else
        snprintf(out, bytes, "exit status %d", WEXITSTATUS(status));
}

/* "0, 2-5", up to the size of the buffer; `base` is the number of the first. */
static void list_ranks(const bool *ranks, int n, int base, char *out,
                       size_t room)
{
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; i < n; i++) {
        int last = i;
        if (!ranks[i])
            continue;
        while (last + 1 < n && ranks[last + 1])
            last++;
        char item[32];
        if (last > i)
            snprintf(item, sizeof(item), "%d-%d", base + i, base + last);
        else
            snprintf(item, sizeof(item), "%d", base + i);
        if (used + strlen(item) + 8 > room) {
            memcpy(out + used, ", ...", sizeof(", ..."));
            return;
        }
        used += (size_t)snprintf(out + used, room - used, "%s%s",
                                 used > 0 ? ", " : "", item);
        i = last;
    }
}

/* "ranks 0, 2-3 ended first, with status 0; " or, if none did, "". */
static void describe_before(const lsi_attempt *a, char *out, size_t bytes)
{
    const int n = a->ranks.setup->n;
    char list[TEXT_BYTES];
    int count = 0;
    for (int i = 0; i < n; i++)
        count += a->ended_before[i];
    list_ranks(a->ended_before, n, lsi_processes_rank(&a->ranks, 0), list,
               sizeof(list));
    out[0] = '\0';
    if (count > 0)
        snprintf(out, bytes, "rank%s %s ended first, with status 0; ",
                 count > 1 ? "s" : "", list);
}

/*
 * A rank that waits for a rank that has ended, even with status 0, fails
 * because of this. So the rank that ended is named first. A signal has another
 * cause.
 */
static void print_first(const lsi_ending *e)
{
    const lsi_output *const output = e->attempt->output;
    char before[TEXT_BYTES + 64] = "", what[96];
    describe(e->first->end.status, what, sizeof(what));
    if (WIFEXITED(e->first->end.status))
        describe_before(e->attempt, before, sizeof(before));
    lsi_output_print(
        output, "%srank %d %s, on %s: %s%s%s%s", before, number_of_first(e),
        before[0] != '\0' ? "then failed" : "failed first", e->host, what,
        lsi_ending_is_oom(e) ? ", out of memory" : "",
        e->message[0] != '\0' ? ": " : "", e->message);
    if (e->oom_kills > 0)
        lsi_output_print(output,
                         "out of memory: the kernel has killed %" PRIu64
                         " process%s in the control group of the ranks since "
                         "they started (oom_kill)",
                         e->oom_kills, e->oom_kills == 1 ? "" : "es");
}

/* Prints the last lines of the rank unchanged. */
static void quote(const lsi_ending *e)
{
    char text[LSI_TAIL_BYTES + 1];
    if (e->tail_bytes == 0)
        return;
    memcpy(text, e->tail, e->tail_bytes);
    text[e->tail_bytes] = '\n';
    lsi_output_print(e->attempt->output,
                     "last lines on stderr of rank %d:", number_of_first(e));
    (void)lsi_sink_put_line(e->attempt->output->sinks[1], text,
                            e->tail_bytes + 1);
}

static void print_backtrace(const lsi_ending *e)
{
    if (e->backtrace == NULL)
        return;
    lsi_output_print(e->attempt->output,
                     "backtrace of rank %d:", number_of_first(e));
    (void)lsi_sink_put_line(e->attempt->output->sinks[1], e->backtrace,
                            strlen(e->backtrace));
}

static bool is_alike(const lsi_rank_failure *x, const lsi_rank_failure *y)
{
    return x->by_launcher == y->by_launcher &&
           (x->by_launcher || x->end.status == y->end.status);
}

/* Prints one line for ranks that ended in the same way. */
static void print_others(const lsi_ending *e)
{
    const lsi_attempt *const a = e->attempt;
    const int n = a->ranks.setup->n;
    bool printed[LSI_LAUNCH_MAX_RANKS] = {false};
    for (int i = 0; i < a->n_failures; i++) {
        const lsi_rank_failure *const one = &a->failures[i];
        bool alike[LSI_LAUNCH_MAX_RANKS] = {false};
        char list[TEXT_BYTES], what[96];
        int count = 0;
        if (one == e->first || printed[one->end.rank])
            continue;
        for (int k = i; k < a->n_failures; k++) {
            const lsi_rank_failure *const other = &a->failures[k];
            if (other == e->first || !is_alike(one, other))
                continue;
            alike[other->end.rank] = printed[other->end.rank] = true;
            count++;
        }
        list_ranks(alike, n, lsi_processes_rank(&a->ranks, 0), list,
                   sizeof(list));
        describe(one->end.status, what, sizeof(what));
        if (one->by_launcher)
            lsi_output_print(
                a->output, "rank%s %s then %s ended by the launcher",
                count > 1 ? "s" : "", list, count > 1 ? "were" : "was");
        else
            lsi_output_print(a->output,
                             "rank%s %s then failed: %s (a consequence)",
                             count > 1 ? "s" : "", list, what);
    }
}

/*
 * Whether all ranks failed as the first one did: a status that repeats is not
 * the fault of one rank.
 */
static bool is_of_all(const lsi_ending *e)
{
    const lsi_attempt *const a = e->attempt;
    const int status = e->first->end.status;
    if (!WIFEXITED(status) || lsi_exit_repeats(WEXITSTATUS(status)) == NULL ||
        a->n_failures != a->ranks.setup->n)
        return false;
    for (int i = 0; i < a->n_failures; i++) {
        if (!is_alike(&a->failures[i], e->first))
            return false;
    }
    return true;
}

static void print_all(const lsi_ending *e)
{
    const int status = WEXITSTATUS(e->first->end.status);
    lsi_output_print(e->attempt->output,
                     "all %d ranks ended with exit status %d: %s",
                     e->attempt->n_failures, status, lsi_exit_repeats(status));
}

void lsi_ending_print(const lsi_ending *e)
{
    const lsi_attempt *const a = e->attempt;
    if (a->elsewhere[0] != '\0')
        print_others(e);
    if (e->first == NULL || a->first_failed < 0)
        return;
    const bool of_all = a->ranks.setup->n > 1 && is_of_all(e);
    if (of_all)
        print_all(e);
    else if (a->ranks.setup->n > 1 || e->message[0] != '\0' ||
             e->oom_kills > 0 || e->backtrace != NULL)
        print_first(e);
    print_backtrace(e);
    quote(e);
    if (!of_all)
        print_others(e);
    if (e->logs[0] != '\0')
        lsi_output_print(a->output, "logs of rank %d: %s", number_of_first(e),
                         e->logs);
    else if (!e->tail_known && a->ranks.setup->n > 1 &&
             !a->ranks.wanted->quiet_exit)
        lsi_output_print(
            a->output,
            "the output of rank %d is above, mixed with the output of other "
            "ranks; --log-dir DIR writes it to separate files",
            number_of_first(e));
}

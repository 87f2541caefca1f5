#include "launch/asking.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/error.h"
#include "base/proc.h"
#include "launch/live_pages.h"

enum { MOST_LINES = 64 };

/* ---- processes that handle the signal ----------------------------------- */

/*
 * Whether the signal set `set` in the text of a status file contains SIGUSR1.
 */
static bool has_signal(const char *status, const char *set)
{
    const char *const at = strstr(status, set);
    const unsigned long long bits =
        at != NULL ? strtoull(at + strlen(set), NULL, 16) : 0;
    return (bits >> (SIGUSR1 - 1) & 1) != 0;
}

/*
 * A thread in sigwait seems to block nothing, so the set that it waits for is
 * read.
 */
static bool thread_waits(pid_t pid, const char *thread)
{
    char name[300], text[256], *end;
    uint64_t bits = 0;
    snprintf(name, sizeof(name), "task/%s/syscall", thread);
    if (lsi_process_file(pid, name, text, sizeof(text)) == 0 ||
        strtol(text, &end, 10) != SYS_rt_sigtimedwait)
        return false;
    const unsigned long set = strtoul(end, NULL, 16); /* its first argument */
    const struct iovec to = {&bits, sizeof(bits)};
    const struct iovec from = {(void *)set, sizeof(bits)};
    return process_vm_readv(pid, &to, 1, &from, 1, 0) == sizeof(bits) &&
           (bits >> (SIGUSR1 - 1) & 1) != 0;
}

static bool thread_holds(pid_t pid, const char *thread)
{
    char name[300], status[4096];
    snprintf(name, sizeof(name), "task/%s/status", thread);
    return lsi_process_file(pid, name, status, sizeof(status)) == 0 ||
           has_signal(status, "\nSigBlk:") || thread_waits(pid, thread);
}

static bool is_signalfd(pid_t pid, const char *descriptor)
{
    char name[300], text[512];
    snprintf(name, sizeof(name), "fdinfo/%s", descriptor);
    return lsi_process_file(pid, name, text, sizeof(text)) > 0 &&
           has_signal(text, "\nsigmask:");
}

typedef bool (*test_fn)(pid_t pid, const char *entry);

/*
 * Whether all entries of a folder below /proc/PID pass a test, or (all: false)
 * any.
 */
static bool passes(pid_t pid, const char *folder, test_fn test, bool all)
{
    char path[64];
    bool passed = all;
    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, folder);
    DIR *const entries = opendir(path);
    if (entries == NULL)
        return false;
    for (const struct dirent *e;
         passed == all && (e = readdir(entries)) != NULL;) {
        if (e->d_name[0] != '.')
            passed = test(pid, e->d_name);
    }
    closedir(entries);
    return passed;
}

/*
 * One thread that does not block the signal is enough for it to kill the
 * process. A blocked signal alone is not a request for it: a process may block
 * it for a moment.
 */
static bool receives(pid_t pid)
{
    return passes(pid, "task", thread_holds, true) &&
           (passes(pid, "task", thread_waits, false) ||
            passes(pid, "fdinfo", is_signalfd, false));
}

/*
 * Whether it may be a child between fork and exec, whose handlers are still its
 * parent's. This is a copy that is young, or that blocks signals as posix_spawn
 * does. A signal that reaches it now could meet the default action after its
 * exec.
 */
static bool is_becoming(pid_t pid)
{
    static const double young_seconds = 0.05;
    char status[4096], own[4096], other[4096];
    lsi_process_stat stat;
    if (lsi_process_file(pid, "status", status, sizeof(status)) == 0 ||
        !lsi_process_stat_read(pid, &stat))
        return true;
    const bool blocks = has_signal(status, "\nSigBlk:");
    const size_t n = lsi_process_file(pid, "cmdline", own, sizeof(own));
    if (n != lsi_process_file(stat.parent, "cmdline", other, sizeof(other)) ||
        memcmp(own, other, n) != 0)
        return false;
    return blocks || lsi_process_seconds(&stat) < young_seconds;
}

/*
 * Handlers are read last. However long this process waits for a CPU, they
 * cannot be the handlers of another process before its exec.
 */
static bool handles_signal(pid_t pid)
{
    char status[4096];
    return !is_becoming(pid) &&
           lsi_process_file(pid, "status", status, sizeof(status)) > 0 &&
           (has_signal(status, "\nSigCgt:") || receives(pid));
}

/* ---- each rank ----------------------------------------------------------- */

typedef struct answer {
    bool is_sent; /* the signal was sent to at least one process */
    bool has_page;
    lsi_live_look look;
} answer;

static void ask_process(pid_t pid, answer *a)
{
    lsi_live_page *page;
    if (handles_signal(pid) && kill(pid, SIGUSR1) == 0)
        a->is_sent = true;
    if (a->has_page || lsi_live_open(&page, pid) != LS_OK)
        return;
    lsi_live_read(page, &a->look);
    lsi_live_close(&page);
    a->has_page = true;
}

/* The rank whose process group a process is in; -1: none. */
static int rank_of(const lsi_processes *ranks, pid_t pid)
{
    const pid_t group = getpgid(pid);
    for (int i = 0; i < ranks->n && group > 0; i++) {
        if (ranks->pids[i] == group)
            return i;
    }
    return -1;
}

static void print_rank(const lsi_processes *ranks, int rank, const answer *a)
{
    char text[LSI_LIVE_TEXT], since[32] = "", steps[48] = "";
    const double seconds = lsi_live_text(a->has_page ? &a->look : NULL, text);
    if (seconds >= 0)
        snprintf(since, sizeof(since), " for %.1f s", seconds);
    if (a->has_page)
        snprintf(steps, sizeof(steps), "%s%" PRIu64 " steps done",
                 text[0] != '\0' ? ", " : "", a->look.steps);
    lsi_output_print(ranks->output, "rank %d (pid %d): %s%s%s%s",
                     lsi_processes_rank(ranks, rank), (int)ranks->pids[rank],
                     text, since, steps,
                     a->is_sent ? "" : "; it does not handle SIGUSR1");
}

static void print_hints(const lsi_processes *ranks, int omitted)
{
    const char *const folder = getenv("LOCKSTEP_RECORD");
    if (omitted > 0)
        lsi_output_print(ranks->output,
                         "ranks not listed here: %d; `lockstep top %d` shows "
                         "all ranks",
                         omitted, (int)getppid());
    if (folder != NULL && *folder != '\0')
        lsi_output_print(ranks->output,
                         "to compare the recorded operations of the ranks, run "
                         "`lockstep doctor %s`",
                         folder);
    else
        lsi_output_print(
            ranks->output,
            "to see the last operations of each rank, start the job "
            "with LOCKSTEP_RECORD=FOLDER; SIGUSR1 then writes them "
            "there for `lockstep doctor FOLDER`");
}

void lsi_ask_ranks(const lsi_processes *ranks)
{
    int alive = 0, omitted = 0;
    answer *const answers =
        ranks->pids != NULL ? calloc((size_t)ranks->n, sizeof(*answers)) : NULL;
    DIR *const processes = answers != NULL ? opendir("/proc") : NULL;
    if (answers != NULL && processes == NULL)
        lsi_output_print(ranks->output,
                         "SIGUSR1 is not forwarded: without /proc the launcher "
                         "cannot find out which ranks handle this signal");
    for (pid_t pid; processes != NULL && (pid = lsi_next_process(processes));) {
        const int rank = rank_of(ranks, pid);
        if (rank >= 0)
            ask_process(pid, &answers[rank]);
    }
    for (int i = 0; processes != NULL && i < ranks->n; i++) {
        if (ranks->pids[i] == 0)
            continue;
        if (alive < MOST_LINES)
            print_rank(ranks, i, &answers[i]);
        else
            omitted++;
        alive++;
    }
    if (alive > 0)
        print_hints(ranks, omitted);
    if (processes != NULL)
        closedir(processes);
    free(answers);
}

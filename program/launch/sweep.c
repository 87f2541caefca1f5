/*
 * Children are found by reading /proc: the kernel's own list of them is not
 * compiled into every kernel. Without /proc, every possible process number is
 * tried, which takes a second.
 */
#include "launch/sweep.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/proc.h"

static void append(pid_t **list, size_t *n, pid_t pid)
{
    pid_t *longer = realloc(*list, (*n + 1) * sizeof(pid_t));
    if (longer == NULL)
        return;
    longer[(*n)++] = pid;
    *list = longer;
}

static size_t list_by_proc(pid_t **list)
{
    size_t n = 0;
    DIR *proc = opendir("/proc");
    for (pid_t pid; proc != NULL && (pid = lsi_next_process(proc));) {
        if (lsi_parent_of(pid) == getpid())
            append(list, &n, pid);
    }
    if (proc != NULL)
        closedir(proc);
    return n;
}

/* Whether such a child exists, alive or not yet reaped. */
static bool has_child(idtype_t which, pid_t pid)
{
    siginfo_t info;
    return waitid(which, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

static size_t list_by_asking(pid_t **list)
{
    enum { LAST_PID = 4 << 20 }; /* the most that Linux has */
    size_t n = 0;
    for (pid_t pid = 1; pid <= LAST_PID; pid++) {
        if (has_child(P_PID, pid))
            append(list, &n, pid);
    }
    return n;
}

size_t lsi_children(pid_t **out)
{
    *out = NULL;
    /* The usual case costs one call. */
    if (!has_child(P_ALL, 0))
        return 0;
    const size_t n = list_by_proc(out);
    return n > 0 ? n : list_by_asking(out);
}

static bool contains(const pid_t *list, size_t n, pid_t pid)
{
    for (size_t i = 0; i < n; i++) {
        if (list[i] == pid)
            return true;
    }
    return false;
}

/*
 * Kills and reaps the current children; returns their number. A child that may
 * not be killed, since it has become another user's, is not waited for.
 */
static size_t sweep_once(const pid_t *spared, size_t n, size_t *left)
{
    pid_t *children;
    const size_t found = lsi_children(&children);
    size_t killed = 0;
    *left = 0;
    for (size_t i = 0; i < found; i++) {
        if (contains(spared, n, children[i]))
            continue;
        if (kill(children[i], SIGKILL) != 0 && errno == EPERM &&
            waitpid(children[i], NULL, WNOHANG) == 0) {
            (*left)++;
            continue;
        }
        while (waitpid(children[i], NULL, 0) < 0 && errno == EINTR)
            continue;
        killed++;
    }
    free(children);
    return killed;
}

/* ---- those that multiply ----------------------------------------------- */

typedef struct process {
    pid_t pid, parent;
    bool is_ours; /* a child that is not spared, or a descendant of one */
} process;

static size_t list_processes(process **out)
{
    size_t n = 0;
    DIR *proc = opendir("/proc");
    *out = NULL;
    for (pid_t pid; proc != NULL && (pid = lsi_next_process(proc));) {
        process *const longer = realloc(*out, (n + 1) * sizeof(**out));
        if (longer == NULL)
            continue;
        longer[n++] = (process){pid, lsi_parent_of(pid), false};
        *out = longer;
    }
    if (proc != NULL)
        closedir(proc);
    return n;
}

static bool is_child_of_ours(const process *all, size_t n, pid_t parent)
{
    for (size_t i = 0; i < n; i++) {
        if (all[i].pid == parent)
            return all[i].is_ours;
    }
    return false;
}

/* Sends a signal to all descendants; returns their number. */
static size_t signal_family(const pid_t *spared, size_t n_spared, int number)
{
    process *all;
    const size_t n = list_processes(&all);
    size_t found = 0;
    bool more = true;
    for (size_t i = 0; i < n; i++)
        all[i].is_ours = all[i].parent == getpid() &&
                         !contains(spared, n_spared, all[i].pid);
    while (more) {
        more = false;
        for (size_t i = 0; i < n; i++) {
            if (!all[i].is_ours && is_child_of_ours(all, n, all[i].parent))
                all[i].is_ours = more = true;
        }
    }
    for (size_t i = 0; i < n; i++) {
        if (!all[i].is_ours)
            continue;
        (void)kill(all[i].pid, number);
        found++;
    }
    free(all);
    return found;
}

/*
 * Kills a family that makes processes faster than they are killed, such as a
 * fork bomb in separate process groups. It is stopped first, until no new
 * processes appear. Within a limit on processes, the stopped ones leave no room
 * for others.
 */
static void kill_family(const pid_t *spared, size_t n)
{
    size_t before = 0, now = 0;
    do {
        before = now;
        now = signal_family(spared, n, SIGSTOP);
    } while (now > before);
    (void)signal_family(spared, n, SIGKILL);
}

size_t lsi_sweep(const pid_t *spared, size_t n)
{
    enum { PATIENCE = 3 }; /* rounds: a child, its child, and further ones */
    size_t left;
    for (int round = 0; sweep_once(spared, n, &left) > 0; round++) {
        if (round >= PATIENCE)
            kill_family(spared, n);
    }
    return left;
}

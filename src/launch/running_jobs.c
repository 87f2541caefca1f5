/*
 * A rank has the variables of a job that its parent, the supervisor, has not;
 * what a rank has started has inherited them. See running_jobs.h.
 */
#include "launch/running_jobs.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"

/* What is in a file of /proc/PID, 0-terminated, or NULL; freed by the caller.
 */
static char *read_proc(pid_t pid, const char *name, size_t *bytes)
{
    enum { PIECE = 16 << 10 };
    char path[64];
    size_t used = 0;
    char *text = NULL;
    ssize_t got = 1;
    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    while (got > 0) {
        char *const more = realloc(text, used + PIECE + 1);
        if (more == NULL) {
            free(text);
            text = NULL;
            break;
        }
        text = more;
        got = read(fd, text + used, PIECE);
        used += got > 0 ? (size_t)got : 0;
        text[used] = '\0';
    }
    close(fd);
    *bytes = used;
    return text;
}

/* The value of a variable in NAME=VALUE entries that end with 0; or NULL. */
static const char *find_variable(const char *entries, size_t bytes,
                                 const char *name)
{
    const size_t length = strlen(name);
    for (const char *e = entries; e < entries + bytes; e += strlen(e) + 1) {
        if (strncmp(e, name, length) == 0 && e[length] == '=')
            return e + length + 1;
    }
    return NULL;
}

/* The parent, and when it was started in clock ticks since the boot. */
static bool read_stat(pid_t pid, pid_t *parent, unsigned long long *started)
{
    enum { PARENT = 1, STARTED = 19 }; /* behind the name, from 0 */
    size_t bytes;
    char *const text = read_proc(pid, "stat", &bytes);
    /* The name, in parentheses, may hold anything. */
    char *at = text != NULL ? strrchr(text, ')') : NULL;
    int field = -1;
    while (at != NULL && field < STARTED) {
        at = strchr(at, ' ');
        at = at != NULL ? at + 1 : NULL;
        field++;
        if (at != NULL && field == PARENT)
            *parent = (pid_t)strtol(at, NULL, 10);
        if (at != NULL && field == STARTED)
            *started = strtoull(at, NULL, 10);
    }
    free(text);
    return field == STARTED;
}

static double uptime(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Words separated by 0 as one line. */
static void read_command(pid_t pid, char *out, size_t bytes)
{
    size_t length;
    char *const words = read_proc(pid, "cmdline", &length);
    out[0] = '\0';
    if (words == NULL)
        return;
    for (size_t i = 0; i + 1 < length; i++) {
        if ((unsigned char)words[i] < ' ')
            words[i] = ' ';
    }
    if ((size_t)snprintf(out, bytes, "%s", words) >= bytes)
        memcpy(out + bytes - 4, "...", 4);
    free(words);
}

static int number(const char *text)
{
    return text != NULL ? (int)strtol(text, NULL, 10) : 0;
}

/* What a process's variables say of its job; false if they name none. */
static bool read_variables(pid_t pid, lsi_job_found *out)
{
    size_t bytes;
    char *const entries = read_proc(pid, "environ", &bytes);
    if (entries == NULL)
        return false;
    const char *const id = find_variable(entries, bytes, "LOCKSTEP_JOB");
    const char *const rank = find_variable(entries, bytes, "RANK");
    const char *const run = find_variable(entries, bytes, "LOCKSTEP_RUN");
    if (id != NULL && rank != NULL) {
        *out = (lsi_job_found){
            .size = number(find_variable(entries, bytes, "WORLD_SIZE")),
            .restart =
                number(find_variable(entries, bytes, "LOCKSTEP_RESTART")),
            .first_rank = number(rank),
        };
        snprintf(out->id, sizeof(out->id), "%s", id);
        snprintf(out->run, sizeof(out->run), "%s", run != NULL ? run : id);
    }
    free(entries);
    return id != NULL && rank != NULL;
}

/* Whether the process is a rank that a launcher has started; *out as such. */
static bool read_rank(pid_t pid, lsi_job_found *out)
{
    pid_t supervisor, above;
    unsigned long long started, ignored;
    lsi_job_found of_parent;
    if (!read_variables(pid, out) || !read_stat(pid, &supervisor, &started) ||
        (read_variables(supervisor, &of_parent) &&
         strcmp(of_parent.id, out->id) == 0) ||
        !read_stat(supervisor, &out->launcher, &ignored) ||
        !read_stat(out->launcher, &above, &ignored))
        return false;
    out->ranks = 1;
    out->seconds = uptime() - (double)started / (double)sysconf(_SC_CLK_TCK);
    read_command(pid, out->command, sizeof(out->command));
    return true;
}

/* Adds a rank to its job among `jobs`, or a new one behind them. */
static size_t add_rank(lsi_job_found *jobs, size_t n, const lsi_job_found *rank)
{
    size_t i = 0;
    while (i < n && strcmp(jobs[i].id, rank->id) != 0)
        i++;
    if (i == n) {
        jobs[n] = *rank;
        return n + 1;
    }
    jobs[i].ranks++;
    if (rank->seconds > jobs[i].seconds)
        jobs[i].seconds = rank->seconds;
    if (rank->first_rank < jobs[i].first_rank) {
        jobs[i].first_rank = rank->first_rank;
        memcpy(jobs[i].command, rank->command, sizeof(rank->command));
    }
    return n;
}

static int by_age(const void *a, const void *b)
{
    const lsi_job_found *const x = a, *const y = b;
    return (x->seconds < y->seconds) - (x->seconds > y->seconds);
}

ls_status lsi_find_jobs(lsi_job_found **out, size_t *n)
{
    lsi_job_found *jobs = NULL;
    size_t found = 0, room = 0;
    ls_status status = LS_OK;
    DIR *const processes = opendir("/proc");
    if (processes == NULL)
        return lsi_fail_errno(LS_ERR_SYSTEM, "cannot look for jobs in /proc");
    for (struct dirent *entry; (entry = readdir(processes)) != NULL;) {
        lsi_job_found rank;
        const pid_t pid = (pid_t)number(entry->d_name);
        if (pid <= 0 || !read_rank(pid, &rank))
            continue;
        if (found == room) {
            room = 2 * room + 16;
            lsi_job_found *const more = realloc(jobs, room * sizeof(*jobs));
            if (more == NULL) {
                status =
                    lsi_fail(LS_ERR_MEMORY, "no memory for %zu jobs", room);
                break;
            }
            jobs = more;
        }
        found = add_rank(jobs, found, &rank);
    }
    closedir(processes);
    if (status != LS_OK) {
        free(jobs);
        return status;
    }
    if (found > 0)
        qsort(jobs, found, sizeof(*jobs), by_age);
    *out = jobs;
    *n = found;
    return LS_OK;
}

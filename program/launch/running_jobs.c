/*
 * A rank has the variables of a job, and its parent, the supervisor, does not.
 * Children of a rank have inherited them. See running_jobs.h.
 */
#include "launch/running_jobs.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/grow.h"
#include "base/proc.h"
#include "launch/job_name.h"

/*
 * The contents of a file of /proc/PID, followed by a 0, freed by the caller; or
 * NULL.
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

/* Reads the job from a process's variables; false if they name none. */
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

/* The value of a key in /proc/PID/status, or "". */
static const char *status_value(const char *text, const char *key)
{
    const char *const at = strstr(text, key);
    return at != NULL ? at + strlen(key) + strspn(at + strlen(key), "\t ") : "";
}

/* False if the process has ended. */
static bool read_place(pid_t pid, lsi_rank_found *out)
{
    size_t bytes;
    lsi_process_stat stat;
    char *const text = read_proc(pid, "status", &bytes);
    const bool is_there =
        text != NULL &&
        lsi_cpuset_parse(status_value(text, "\nCpus_allowed_list:"),
                         &out->cpus) &&
        lsi_process_stat_read(pid, &stat);
    if (is_there) {
        out->threads = number(status_value(text, "\nThreads:"));
        out->last_cpu = stat.processor;
    }
    free(text);
    return is_there;
}

/* Whether the process is a rank started by a launcher; *out: the rank. */
static bool read_rank(pid_t pid, lsi_job_found *out)
{
    lsi_process_stat own, supervisor, launcher;
    lsi_rank_found place;
    lsi_job_found of_parent;
    if (!read_variables(pid, out) || !lsi_process_stat_read(pid, &own) ||
        (read_variables(own.parent, &of_parent) &&
         strcmp(of_parent.id, out->id) == 0) ||
        !lsi_process_stat_read(own.parent, &supervisor) ||
        !lsi_process_stat_read(supervisor.parent, &launcher) ||
        !read_place(pid, &place))
        return false;
    out->ranks = 1;
    out->cpus = place.cpus;
    out->launcher = supervisor.parent;
    out->seconds = lsi_process_seconds(&own);
    read_command(pid, out->command, sizeof(out->command));
    return true;
}

/* Adds a rank to its job among `jobs`, or appends a new job. */
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
    for (int w = 0; w < LSI_CPUSET_WORDS; w++)
        jobs[i].cpus.words[w] |= rank->cpus.words[w];
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

/* Calls fn for each existing rank, until it fails. */
typedef ls_status rank_fn(void *context, pid_t pid, const lsi_job_found *rank);

static ls_status each_rank(rank_fn *fn, void *context)
{
    ls_status status = LS_OK;
    DIR *const processes = opendir("/proc");
    if (processes == NULL)
        return lsi_fail_errno(LS_ERR_SYSTEM,
                              "cannot read /proc to find running jobs");
    for (pid_t pid; status == LS_OK && (pid = lsi_next_process(processes));) {
        lsi_job_found rank;
        if (read_rank(pid, &rank))
            status = fn(context, pid, &rank);
    }
    closedir(processes);
    return status;
}

typedef struct job_list {
    lsi_job_found *all;
    size_t n, room;
} job_list;

static ls_status collect_job(void *context, pid_t pid,
                             const lsi_job_found *rank)
{
    job_list *const of = context;
    (void)pid;
    if (!lsi_grow_array(&of->all, of->n, &of->room, sizeof(*of->all)))
        return lsi_fail(LS_ERR_MEMORY, "not enough memory for %zu jobs",
                        of->n + 1);
    of->n = add_rank(of->all, of->n, rank);
    return LS_OK;
}

ls_status lsi_find_jobs(lsi_job_found **out, size_t *n)
{
    job_list found = {0};
    const ls_status status = each_rank(collect_job, &found);
    if (status != LS_OK) {
        free(found.all);
        return status;
    }
    if (found.n > 0)
        qsort(found.all, found.n, sizeof(*found.all), by_age);
    *out = found.all;
    *n = found.n;
    return LS_OK;
}

/* ---- the one that is meant -------------------------------------------- */

/* Whether the name is the PID of a rank; *out: the rank. */
static bool is_rank(const char *name, lsi_job_found *out)
{
    pid_t pid;
    return lsi_parse_pid(name, &pid) && read_rank(pid, out);
}

ls_status lsi_find_job(const char *name, lsi_job_found *out)
{
    lsi_job_found rank, *jobs = NULL;
    size_t n = 0;
    LS_TRY(lsi_find_jobs(&jobs, &n));
    const ls_status status = lsi_choose_job(
        jobs, n, name, is_rank(name, &rank) ? rank.id : NULL, out);
    free(jobs);
    return status;
}

/* ---- its ranks -------------------------------------------------------- */

typedef struct ranks_of {
    const char *id;
    lsi_rank_found *all;
    size_t n, room;
} ranks_of;

static ls_status collect_rank(void *context, pid_t pid,
                              const lsi_job_found *rank)
{
    ranks_of *const of = context;
    lsi_rank_found found = {.rank = rank->first_rank, .pid = pid};
    if (strcmp(rank->id, of->id) != 0 || !read_place(pid, &found))
        return LS_OK;
    if (!lsi_grow_array(&of->all, of->n, &of->room, sizeof(*of->all)))
        return lsi_fail(LS_ERR_MEMORY, "not enough memory for %zu ranks",
                        of->n + 1);
    of->all[of->n++] = found;
    return LS_OK;
}

static int by_rank(const void *a, const void *b)
{
    const lsi_rank_found *const x = a, *const y = b;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

ls_status lsi_find_ranks(const char *id, lsi_rank_found **out, size_t *n)
{
    ranks_of of = {.id = id};
    const ls_status status = each_rank(collect_rank, &of);
    if (status != LS_OK) {
        free(of.all);
        return status;
    }
    if (of.n > 0)
        qsort(of.all, of.n, sizeof(*of.all), by_rank);
    *out = of.all;
    *n = of.n;
    return LS_OK;
}

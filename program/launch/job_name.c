/*
 * A mistyped name must not end another job. So the beginning of an id has a
 * least length, and digits alone are never a beginning: `stop 3` may be meant
 * for the third job of a list.
 */
#include "launch/job_name.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

enum { LEAST = 4, MOST_LISTED = 6 };

static bool is_all_digits(const char *name)
{
    return *name != '\0' && name[strspn(name, "0123456789")] == '\0';
}

bool lsi_parse_pid(const char *name, pid_t *out)
{
    const long pid = strtol(name, NULL, 10);
    if (!is_all_digits(name) || name[0] == '0' || pid > INT_MAX)
        return false;
    *out = (pid_t)pid;
    return true;
}

/* ---- what fits ---------------------------------------------------------- */

typedef struct word {
    const char *name, *of_rank;
} word;

static bool has_id(const lsi_job_found *job, const word *w)
{
    return strcmp(job->run, w->name) == 0;
}

static bool has_pid(const lsi_job_found *job, const word *w)
{
    char pid[16];
    snprintf(pid, sizeof(pid), "%d", (int)job->launcher);
    return strcmp(pid, w->name) == 0 ||
           (w->of_rank != NULL && strcmp(job->id, w->of_rank) == 0);
}

static bool has_id_or_pid(const lsi_job_found *job, const word *w)
{
    return has_id(job, w) || has_pid(job, w);
}

static bool has_beginning(const lsi_job_found *job, const word *w)
{
    return strlen(w->name) >= LEAST &&
           strncmp(job->run, w->name, strlen(w->name)) == 0;
}

static bool is_any(const lsi_job_found *job, const word *w)
{
    (void)job;
    (void)w;
    return true;
}

typedef bool fits_fn(const lsi_job_found *job, const word *w);

typedef struct matches {
    const lsi_job_found *first[MOST_LISTED];
    size_t n;
} matches;

static matches match(const lsi_job_found *jobs, size_t n, fits_fn *fits,
                     const word *w)
{
    matches found = {.n = 0};
    for (size_t i = 0; i < n; i++) {
        if (!fits(&jobs[i], w))
            continue;
        if (found.n < MOST_LISTED)
            found.first[found.n] = &jobs[i];
        found.n++;
    }
    return found;
}

/* ---- refusals ----------------------------------------------------------- */

enum { LIST_BYTES = 640 };

/* "4f1c (launcher 17), b (launcher 40)". */
static void list(const matches *of, char out[LIST_BYTES])
{
    const size_t listed = of->n < MOST_LISTED ? of->n : MOST_LISTED;
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < listed; i++)
        used += (size_t)snprintf(
            out + used, LIST_BYTES - used, "%s%.70s (launcher %d)",
            i > 0 ? ", " : "", of->first[i]->run, (int)of->first[i]->launcher);
    if (of->n > listed)
        snprintf(out + used, LIST_BYTES - used, " and %zu more",
                 of->n - listed);
}

static ls_status refuse_unknown(const lsi_job_found *jobs, size_t n,
                                const word *w)
{
    char running[LIST_BYTES] = "none";
    const matches all = match(jobs, n, is_any, w);
    if (n > 0)
        list(&all, running);
    if (is_all_digits(w->name))
        return lsi_fail(
            LS_ERR_NOT_FOUND,
            "no running job of this user has the id or the PID '%s'. Give a "
            "complete id, or the PID of a launcher or a rank. Running: %s",
            w->name, running);
    if (strlen(w->name) < LEAST)
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "'%s' is too short to identify a job. Give at least the first %d "
            "characters of its id, the complete id, or a PID. Running: %s",
            w->name, LEAST, running);
    return lsi_fail(LS_ERR_NOT_FOUND,
                    "no running job of this user has an id that equals '%s' or "
                    "begins with it. Running: %s",
                    w->name, running);
}

static ls_status refuse_several(const lsi_job_found *jobs, size_t n,
                                const word *w, const matches *found)
{
    char names[LIST_BYTES];
    list(found, names);
    const size_t same = match(jobs, n, has_id, w).n;
    if (same == found->n)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "%zu jobs have the id '%s': %s. Give the PID of the "
                        "launcher of one job",
                        found->n, w->name, names);
    if (same > 0)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "'%s' is the id of one job and a PID of another job: "
                        "%s. For the first job, give the PID of its launcher. "
                        "For the second job, give its id",
                        w->name, names);
    return lsi_fail(LS_ERR_ARGUMENT,
                    "%zu jobs have ids that begin with '%s': %s. Give more "
                    "characters, or the PID of a launcher",
                    found->n, w->name, names);
}

/* ---- choosing ----------------------------------------------------------- */

ls_status lsi_choose_job(const lsi_job_found *jobs, size_t n, const char *name,
                         const char *of_rank, lsi_job_found *out)
{
    const word w = {name, of_rank};
    const bool number = is_all_digits(name);
    matches found = match(jobs, n, number ? has_id_or_pid : has_id, &w);
    if (found.n == 0 && !number)
        found = match(jobs, n, has_beginning, &w);
    if (found.n == 0)
        return refuse_unknown(jobs, n, &w);
    if (found.n > 1)
        return refuse_several(jobs, n, &w, &found);
    *out = *found.first[0];
    return LS_OK;
}

#include "launch/job_name.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

static bool is_meant(const lsi_job_found *job, const char *name)
{
    char pid[16];
    snprintf(pid, sizeof(pid), "%d", (int)job->launcher);
    return strcmp(name, pid) == 0 || strncmp(job->run, name, strlen(name)) == 0;
}

/* A name that is one exactly means no longer one. */
ls_status lsi_choose_job(const lsi_job_found *jobs, size_t n, const char *name,
                         lsi_job_found *out)
{
    size_t found = 0;
    for (size_t i = 0; i < n; i++) {
        if (!is_meant(&jobs[i], name))
            continue;
        *out = jobs[i];
        found++;
        if (strcmp(jobs[i].run, name) == 0)
            return LS_OK;
    }
    if (found == 1)
        return LS_OK;
    if (found == 0)
        return lsi_fail(LS_ERR_NOT_FOUND,
                        "no job of yours is called %s; lockstep jobs lists "
                        "them",
                        name);
    return lsi_fail(LS_ERR_ARGUMENT,
                    "%zu jobs begin with %s; say more of the name, or the pid "
                    "of its launcher",
                    found, name);
}

/* Finds the running job that a word on the command line names. */
#ifndef LS_LAUNCH_JOB_NAME_H
#define LS_LAUNCH_JOB_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "launch/running_jobs.h"
#include "lockstep/status.h"

/* For help texts of commands that take a job. */
#define LSI_JOB_NAME_HELP                                                      \
    "JOB is an id that `lockstep jobs` prints, or its first 4 or more "        \
    "characters (not only digits), or the PID of a launcher or a rank. "

/* The PID in a name: digits only, the first not 0. False: not a PID. */
bool lsi_parse_pid(const char *name, pid_t *out);

/*
 * The one of these jobs that a name means. `of_rank` is the LOCKSTEP_JOB of the
 * rank whose PID the name is; NULL: no such rank. LS_ERR_NOT_FOUND if no job
 * matches. LS_ERR_ARGUMENT if several do, or if the name is too short.
 */
ls_status lsi_choose_job(const lsi_job_found *jobs, size_t n, const char *name,
                         const char *of_rank, lsi_job_found *out);

#endif

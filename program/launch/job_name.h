/*
 * Which running job a word of the command line names.
 */
#ifndef LS_LAUNCH_JOB_NAME_H
#define LS_LAUNCH_JOB_NAME_H

#include <stddef.h>

#include "launch/running_jobs.h"
#include "lockstep/status.h"

/*
 * The one of these jobs that a name fits. LS_ERR_NOT_FOUND; LS_ERR_ARGUMENT if
 * several begin with it.
 */
ls_status lsi_choose_job(const lsi_job_found *jobs, size_t n, const char *name,
                         lsi_job_found *out);

#endif

/*
 * lockstep stop JOB: asks the launcher of a running job to end it.
 */
#include <signal.h>
#include <stdio.h>

#include "base/error.h"
#include "cli/frame/command.h"
#include "launch/job_name.h"
#include "launch/running_jobs.h"

typedef struct args {
    bool kill;
} args;

#define ROW(...) LSI_OPTION(args, __VA_ARGS__)
static const lsi_option options[] = {
    ROW(kill, BOOL, "kill", 0, NULL, NULL,
        "kill the job at once with SIGKILL; nothing is saved"),
};

static ls_status stop(const lsi_job_found *job, bool at_once)
{
    if (kill(job->launcher, at_once ? SIGKILL : SIGTERM) != 0)
        return lsi_fail_errno(LS_ERR_SYSTEM,
                              "cannot signal the launcher (pid %d)",
                              (int)job->launcher);
    printf("%s %s (%d rank%s, launcher %d)\n",
           at_once ? "killed" : "asked to end:", job->run, job->size,
           job->size == 1 ? "" : "s", (int)job->launcher);
    return LS_OK;
}

static int run_stop(const lsi_invocation *call)
{
    args a;
    int rest;
    int exit_status;
    lsi_job_found job;
    if (!lsi_cli_parse(call, &a, &rest, &exit_status))
        return exit_status;
    if (rest + 1 != call->argc || call->argv[rest][0] == '\0')
        return lsi_cli_usage("name one job; 'lockstep jobs' lists them");
    ls_status status = lsi_find_job(call->argv[rest], &job);
    if (status == LS_OK)
        status = stop(&job, a.kill);
    return status == LS_OK ? 0 : lsi_cli_error();
}

const lsi_command lsi_command_stop = {
    .name = "stop",
    .summary = "End one of your running jobs",
    .arguments = "JOB",
    .text = LSI_JOB_NAME_HELP
    "The launcher receives SIGTERM. Training with a checkpoint folder then "
    "saves before it ends. After a second `lockstep stop`, the launcher waits "
    "only for the grace period (lockstep run --grace).",
    LSI_COMMAND_OPTIONS(options),
    .run = run_stop,
};

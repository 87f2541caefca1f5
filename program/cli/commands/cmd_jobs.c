/*
 * lockstep jobs: this user's running jobs. See launch/running_jobs.h.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "cli/frame/command.h"
#include "launch/running_jobs.h"
#include "report/table.h"

typedef struct args {
    const char *json;
    bool markdown;
} args;

#define ROW(...) LSI_OPTION(args, __VA_ARGS__)
static const lsi_option options[] = {
    LSI_JSON_ROW(json),
    LSI_MARKDOWN_ROW(markdown),
};

static const lsi_column columns[] = {
    LSI_COLUMN(TEXT, "run", "Run"),
    LSI_COLUMN(INT, "launcher", "Launcher"),
    LSI_COLUMN(INT, "ranks", "Ranks"),
    LSI_COLUMN(INT, "started", "Of"),
    LSI_COLUMN(INT, "restart", "Restart"),
    LSI_COLUMN(REAL, "seconds", "Running", .unit = "s"),
    LSI_COLUMN(TEXT, "cpus", "CPUs"),
    LSI_COLUMN(TEXT, "command", "Command"),
};

static void fill(lsi_table *table, const lsi_job_found *jobs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char cpus[512];
        lsi_cpuset_text(&jobs[i].cpus, cpus, sizeof(cpus));
        lsi_table_row(table);
        lsi_table_text(table, "cpus", cpus);
        lsi_table_text(table, "run", jobs[i].run);
        lsi_table_int(table, "launcher", jobs[i].launcher);
        lsi_table_int(table, "ranks", jobs[i].ranks);
        lsi_table_int(table, "started", jobs[i].size);
        lsi_table_int(table, "restart", jobs[i].restart);
        lsi_table_real(table, "seconds", jobs[i].seconds);
        lsi_table_text(table, "command", jobs[i].command);
    }
}

static int run_jobs(const lsi_invocation *call)
{
    args a;
    int exit_status;
    lsi_job_found *jobs = NULL;
    size_t n = 0;
    lsi_table *table = NULL;
    if (!lsi_cli_parse(call, &a, NULL, &exit_status))
        return exit_status;
    ls_status status = lsi_find_jobs(&jobs, &n);
    if (status == LS_OK)
        status = LSI_TABLE_NEW(&table, columns);
    if (status == LS_OK) {
        fill(table, jobs, n);
        status = lsi_cli_show_table(call, table, a.json);
    }
    lsi_table_free(&table);
    free(jobs);
    return status == LS_OK ? 0 : lsi_cli_error();
}

const lsi_command lsi_command_jobs = {
    .name = "jobs",
    .summary = "List your running jobs on this machine",
    .text = "`lockstep run`, or a command with -n, starts a job. The column "
            "Run contains the name of the run in the logs: a random number, or "
            "the value of --rdzv-id. The column CPUs lists all CPUs that the "
            "ranks may use; `lockstep topo RUN` shows the CPUs of each rank. "
            "`lockstep stop` ends a job.",
    LSI_COMMAND_OPTIONS(options),
    .run = run_jobs,
};

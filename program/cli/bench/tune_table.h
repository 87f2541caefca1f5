/*
 * `lockstep tune` for a whole machine: which numbers of ranks are measured, in
 * how much time, and the file that keeps their lines (machine_table.h). The
 * process that starts the ranks plans; rank 0 of each job hands over a line.
 */
#ifndef LS_CLI_BENCH_TUNE_TABLE_H
#define LS_CLI_BENCH_TUNE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/cpuset.h"
#include "cli/frame/list.h"
#include "comm/api/machine_table.h"

/* For help texts; KEY stands for the processor, its caches and CPUs. */
#define LSI_KEPT_TABLE_HELP                                                    \
    "$XDG_CACHE_HOME/lockstep/select-KEY.txt (default: under ~/.cache)"

typedef struct lsi_tune_table {
    lsi_cpuset cpus; /* that the ranks may use */
    lsi_machine_key key;
    lsi_machine_table found; /* its lines are still in the file in memory */
    size_t jobs;
    int fd; /* a file in memory for the lines; 0: no jobs are planned */
} lsi_tune_table;

/*
 * Lists the numbers of ranks: from 2 to the CPUs, at most 8, and last one that
 * is larger than the CPUs that it gets. Watches for half a second how busy the
 * machine is.
 */
ls_status lsi_tune_table_plan(lsi_tune_table *table, lsi_list *ranks);

/* Before the ranks of a job start: whether it is the last one, which shares
 * CPUs. */
ls_status lsi_tune_table_before(lsi_tune_table *table, size_t job, int ranks);

/* Writes the file and says so on `stream`, unless that is NULL. */
ls_status lsi_tune_table_keep(lsi_tune_table *table, FILE *stream);

/*
 * Whether this rank is one of such a job; the file for the line, and the
 * seconds that the job has.
 */
bool lsi_tune_table_job(int *fd, double *seconds);

/* From rank 0 of such a job to the process that has started it. */
ls_status lsi_tune_table_hand_over(int fd, const char *line);

#endif

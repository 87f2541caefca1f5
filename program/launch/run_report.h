/*
 * The report of a run as JSON: `lockstep run --json=FILE`.
 * docs/how-to/run-output.md describes its contents.
 */
#ifndef LS_LAUNCH_RUN_REPORT_H
#define LS_LAUNCH_RUN_REPORT_H

#include <jansson.h>

#include "launch/ending.h"

typedef struct lsi_run_report {
    const char *path;
    double started;   /* seconds since 1970 */
    json_t *attempts; /* NULL: no report is wanted */
} lsi_run_report;

/* Opens a report; without a path nothing is kept. */
void lsi_run_report_open(lsi_run_report *report, const char *path);

/* Adds an attempt that has ended; `started` is when, in seconds since 1970. */
void lsi_run_report_add(lsi_run_report *report, const lsi_ending *ending);

/*
 * Writes the report atomically, with the exit status of the run, and frees it.
 * LS_ERR_IO with the reason.
 */
ls_status lsi_run_report_write(lsi_run_report *report, const lsi_attempt *last,
                               int exit_status);

#endif

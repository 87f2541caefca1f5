/*
 * Progress of long work: a bar that redraws itself on a terminal (terminal.h),
 * a plain line now and then elsewhere.
 */
#ifndef LS_REPORT_PROGRESS_H
#define LS_REPORT_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "report/live_line.h"

typedef struct lsi_progress_bar {
    FILE *stream; /* NULL: silent */
    lsi_live_line live;
    const char *label;
    int64_t total;
    int tenths; /* of the work that a log has been told about */
    double start, last_told;
} lsi_progress_bar;

/*
 * Begins a piece of work of `total` units on `stream` (usually stderr; NULL for
 * ranks that keep quiet). The label must outlive it.
 */
void lsi_progress_begin(lsi_progress_bar *progress, FILE *stream,
                        const char *label, int64_t total);

/*
 * `done` of the units are done; `note` (or NULL) is shown behind them. Cheap
 * enough for every step: draws ten times a second at most.
 */
void lsi_progress_update(lsi_progress_bar *progress, int64_t done,
                         const char *note);

/* Clears the bar, so that the next line stands where it was. */
void lsi_progress_end(lsi_progress_bar *progress);

#endif

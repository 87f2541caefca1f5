/*
 * The end of an attempt: the rank that failed first with all known facts, and
 * the ranks that failed because of it. It is printed as the last output of the
 * attempt, and is part of the report of the run (run_report.h).
 */
#ifndef LS_LAUNCH_ENDING_H
#define LS_LAUNCH_ENDING_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "launch/attempt.h"

typedef struct lsi_ending {
    const lsi_attempt *attempt; /* must outlive this */
    char host[65];
    const lsi_rank_failure *first; /* NULL: on another node */
    const char *tail;              /* last lines of its stderr, */
    size_t tail_bytes;             /* at most 20 lines */
    bool tail_known;               /* its stderr passed through the launcher */
    char message[512];             /* message of a Python program, or "" */
    json_t *error_file;            /* error file that it wrote, or NULL */
    char *backtrace;               /* lines about its crash, or NULL */
    bool oom_known;
    uint64_t oom_kills; /* count of its control group since the start */
    char logs[4608];    /* folder of its logs, or "" */
} lsi_ending;

/* Call it when all ranks have ended and their output has been read. */
void lsi_ending_find(lsi_ending *ending, const lsi_attempt *attempt);
void lsi_ending_free(lsi_ending *ending);

/* Whether it was killed for lack of memory, as far as known. */
bool lsi_ending_is_oom(const lsi_ending *ending);

/* Prints the final summary. */
void lsi_ending_print(const lsi_ending *ending);

#endif

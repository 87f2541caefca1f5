/*
 * The end of an attempt: who failed first and what is known of it, and who
 * failed because of that. It is the last thing that is shown of the attempt,
 * and what the report of the run has of it (run_report.h).
 */
#ifndef LS_LAUNCH_ENDING_H
#define LS_LAUNCH_ENDING_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "launch/attempt.h"

typedef struct lsi_ending {
    const lsi_attempt *attempt; /* lives longer */
    char host[65];
    const lsi_rank_failure *first; /* NULL: none of this node's ranks was */
    const char *tail;              /* what it wrote last on its stderr, */
    size_t tail_bytes;             /* 20 lines at most */
    bool tail_known;               /* its stderr passed through the launcher */
    char message[512];             /* of a Python program, or "" */
    json_t *error_file;            /* that it wrote, or NULL */
    char *backtrace;               /* lines about its crash, or NULL */
    bool oom_known;
    uint64_t oom_kills; /* that its control group counted meanwhile */
    char logs[4608];    /* its folder, or "" */
} lsi_ending;

/* When all ranks have ended and what they wrote has been read. */
void lsi_ending_find(lsi_ending *ending, const lsi_attempt *attempt);
void lsi_ending_free(lsi_ending *ending);

/* Whether it was killed for want of memory, as far as that can be known. */
bool lsi_ending_is_oom(const lsi_ending *ending);

/* The last screen. */
void lsi_ending_say(const lsi_ending *ending);

#endif

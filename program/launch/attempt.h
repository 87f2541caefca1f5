/*
 * One attempt at a job: its ranks are started, watched and ended. Whether there
 * is another attempt, and what is passed on from outside, is the supervisor's
 * (supervisor.c).
 */
#ifndef LS_LAUNCH_ATTEMPT_H
#define LS_LAUNCH_ATTEMPT_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "launch/launch.h"
#include "launch/output.h"
#include "launch/processes.h"

/*
 * An attempt goes through these in order and may leave some out. Only a
 * request to end leads from DOUBT back to RUNNING.
 */
typedef enum lsi_phase {
    LSI_PHASE_RUNNING,
    LSI_PHASE_DOUBT, /* a rank ended as if somebody had asked for it; as GRACE,
                        until it is known whether somebody has */
    LSI_PHASE_GRACE, /* a rank has failed; the others notice by themselves */
    LSI_PHASE_TERMINATING, /* the ranks got SIGTERM */
    LSI_PHASE_KILLING,     /* the ranks got SIGKILL */
    LSI_PHASE_ENDED,       /* no rank is left */
    LSI_PHASE_NOT_STARTED  /* no rank is left, and not all were started */
} lsi_phase;

/* A rank that ended otherwise than with status 0. */
typedef struct lsi_rank_failure {
    lsi_process_end end;
    bool by_launcher; /* by the signal that ends what is left */
} lsi_rank_failure;

/* Times are those of the suspending clock; 0: never. */
typedef struct lsi_attempt {
    /* Of all attempts: lsi_attempt_start leaves them as they are. */
    const lsi_launch_limits *limits;
    const lsi_launch_nodes *nodes; /* NULL: this one only */
    const lsi_output *output;      /* for what is to be said */
    struct lsi_agent *agent;       /* of a job of several nodes, else NULL */
    lsi_processes ranks;
    double timeout_at;
    double stopped_at; /* when the ranks were told to stop; 0: they run */
    int asked_by;      /* the signal that asked first for the end; 0: none */
    bool timed_out;

    /* Of this one. */
    double started; /* seconds since 1970 */
    bool oom_known; /* what the ranks' control group had counted by then */
    uint64_t oom_before;
    lsi_rank_failure *failures; /* in the order of their ends */
    int n_failures;
    /* Ranks of this node that had ended with status 0 when the culprit was
       found, so it may have waited for them. */
    bool ended_before[LSI_LAUNCH_MAX_RANKS];
    int culprit; /* of this node's ranks the first, named or not; else -1 */
    char reported[256];  /* what the other nodes have heard of it, or "" */
    char elsewhere[512]; /* what was first, if it was not that; or "" */
    lsi_phase phase;
    double next_at;          /* when the next phase begins */
    int verdict;             /* exit status of the job; -1: none so far */
    int first_failed;        /* the rank, once it is named; else -1 */
    lsi_process_end suspect; /* failed first as far as is known; pid 0: none */
    int answer; /* status, as from waitpid, of the first rank that ended because
                   it was asked to; 0: none */
} lsi_attempt;

static inline bool lsi_attempt_has_ended(const lsi_attempt *a)
{
    return a->phase >= LSI_PHASE_ENDED;
}

/* Starts the ranks; if that fails, the verdict says so. */
void lsi_attempt_start(lsi_attempt *a, const sigset_t *mask);

/* Goes on to a later phase, KILLING at most; an earlier one is ignored. */
void lsi_attempt_enter(lsi_attempt *a, lsi_phase next);

/* A rank of another node, or of this, was the first that failed. */
void lsi_attempt_be_told(lsi_attempt *a, int verdict, const char *text);

/* The ranks have been told to stop; to go on. */
void lsi_attempt_suspend(lsi_attempt *a);
void lsi_attempt_resume(lsi_attempt *a);

/* Takes notice of the ranks that have ended and names the first failure. */
void lsi_attempt_reap(lsi_attempt *a);

/* What is due by now: the timeout, and the next phase. */
void lsi_attempt_pass_deadlines(lsi_attempt *a, double now);

/* When no rank is left, once: kills what they have left behind. */
void lsi_attempt_sweep(lsi_attempt *a);

/* When there is to be no other. */
void lsi_attempt_free(lsi_attempt *a);

#endif

/*
 * One attempt at a job: its ranks are started, watched and ended. The
 * supervisor (supervisor.c) decides on further attempts and passes on signals.
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
 * An attempt goes through these phases in order and may skip some. Only a
 * request to end leads from DOUBT back to RUNNING.
 */
typedef enum lsi_phase {
    LSI_PHASE_RUNNING,
    LSI_PHASE_DOUBT, /* a rank ended as if asked to; as GRACE, until it is known
                        whether it was asked */
    LSI_PHASE_GRACE, /* a rank has failed; the others notice by themselves */
    LSI_PHASE_TERMINATING, /* the ranks got SIGTERM */
    LSI_PHASE_KILLING,     /* the ranks got SIGKILL */
    LSI_PHASE_ENDED,       /* no rank is left */
    LSI_PHASE_NOT_STARTED  /* no rank is left, and some were never started */
} lsi_phase;

/* A rank that ended with another status than 0. */
typedef struct lsi_rank_failure {
    lsi_process_end end;
    bool by_launcher; /* ended by the signal to the remaining ranks */
} lsi_rank_failure;

/* State of an attempt. Times are those of the suspending clock; 0: never. */
typedef struct lsi_attempt {
    /* Members of all attempts, which lsi_attempt_start does not change. */
    const lsi_launch_limits *limits;
    const lsi_launch_nodes *nodes; /* NULL: one node only */
    const lsi_output *output;      /* output for messages */
    struct lsi_agent *agent;       /* in a job of several nodes, else NULL */
    lsi_processes ranks;
    double timeout_at;
    double stopped_at; /* when the ranks were stopped; 0: they run */
    int asked_by;      /* first signal that asked for the end; 0: none */
    bool timed_out;

    /* Members of this attempt. */
    double started; /* seconds since 1970 */
    bool oom_known; /* the control group's count at the start is known */
    uint64_t oom_before;
    lsi_rank_failure *failures; /* failures in the order of the ranks' ends */
    int n_failures;
    /*
     * Ranks of this node that had ended with status 0 when the culprit was
     * found, so that it may have waited for them.
     */
    bool ended_before[LSI_LAUNCH_MAX_RANKS];
    int culprit; /* first failed rank of this node, named or not; else -1 */
    char reported[256];  /* report of it to the other nodes, or "" */
    char elsewhere[512]; /* the first failure, if not this one; or "" */
    lsi_phase phase;
    double next_at;          /* when the next phase begins */
    int verdict;             /* exit status of the job; -1: none so far */
    int first_failed;        /* the rank, once it is named; else -1 */
    lsi_process_end suspect; /* first failure as far as is known; pid 0: none */
    int answer; /* status, as from waitpid, of the first rank that ended on
                   request; 0: none */
} lsi_attempt;

static inline bool lsi_attempt_has_ended(const lsi_attempt *a)
{
    return a->phase >= LSI_PHASE_ENDED;
}

/* Starts the ranks; if that fails, the verdict says so. */
void lsi_attempt_start(lsi_attempt *a, const sigset_t *mask);

/* Goes on to a later phase, KILLING at most; an earlier one is ignored. */
void lsi_attempt_enter(lsi_attempt *a, lsi_phase next);

/* A rank of another node, or of this one, was the first to fail. */
void lsi_attempt_end_on_failure(lsi_attempt *a, int verdict, const char *text);

/* The ranks have been stopped; or continued. */
void lsi_attempt_suspend(lsi_attempt *a);
void lsi_attempt_resume(lsi_attempt *a);

/* Processes the ranks that have ended and names the first failure. */
void lsi_attempt_reap(lsi_attempt *a);

/* Acts on deadlines that have passed: the timeout, and the next phase. */
void lsi_attempt_pass_deadlines(lsi_attempt *a, double now);

/*
 * Kills the processes that the ranks have left, once no rank is left. Call it
 * once.
 */
void lsi_attempt_sweep(lsi_attempt *a);

/* Frees the attempt after the last one. */
void lsi_attempt_free(lsi_attempt *a);

#endif

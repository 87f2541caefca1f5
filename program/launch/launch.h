/*
 * Starts the ranks of a job on this machine, and ends them.
 *
 * Three levels of processes ensure that no process is left behind:
 *
 *     front        the caller of lsi_launch; forwards signals, waits
 *     supervisor   starts the ranks, watches them, ends them
 *     ranks        each leads a separate process group
 *
 * If the front is killed, the supervisor sees its pipe (`parent_pipe`) close.
 * The supervisor then kills every rank and all their descendants, as their
 * subreaper. If the supervisor is killed, the kernel kills the ranks
 * (parent-death signal) and their process groups (orphan_guard.h). The front
 * kills the other processes that they started.
 */
#ifndef LS_LAUNCH_LAUNCH_H
#define LS_LAUNCH_LAUNCH_H

#include <stdbool.h>

#include "launch/binding.h"
#include "launch/exit_status.h"
#include "launch/logs.h"
#include "lockstep/status.h"

enum {
    LSI_LAUNCH_MAX_RANKS = 1024, /* on each node */
    LSI_LAUNCH_MAX_NODES = 4096
};

/* Streams of a rank, as bits: torchrun's numbers. */
enum { LSI_STREAM_OUT = 1, LSI_STREAM_ERR = 2, LSI_STREAMS = 3 };

/* Advice after a message that a launcher on another host cannot have sent. */
#define LSI_ONE_VERSION "use the same version of lockstep on all hosts"

/* Settings for the start of this node's ranks. */
typedef struct lsi_launch_ranks {
    char *const *argv;  /* program, found by PATH, and its arguments */
    const char *script; /* file that the program runs; NULL: none */
    int n;              /* 1..LSI_LAUNCH_MAX_RANKS */
    int threads;        /* OMP_NUM_THREADS of each; 0: lsi_threads_default */
    int master_port;    /* MASTER_PORT; 0: a free one */
    lsi_binding_mode bind;
    bool tells_places;  /* one line on stderr ahead of the start */
    bool no_input;      /* rank 0 has no standard input either */
    const char *run_id; /* TORCHELASTIC_RUN_ID; NULL: a random one */
    const char *role;   /* ROLE_NAME; NULL: "default" */
} lsi_launch_ranks;

/* Destinations of the output of one rank; all zeros: none. */
typedef struct lsi_rank_output {
    unsigned char console; /* streams shown on this process's own ones */
    unsigned char tagged;  /* of these, lines marked with "[rank] " */
    unsigned char folded;  /* of these, folded as in console.h */
    unsigned char passed;  /* of these, forwarded unchanged by the launcher */
} lsi_rank_output;

/* Destinations of the output. */
typedef struct lsi_launch_output {
    const lsi_rank_output *of_ranks; /* NULL: all directly to the console */
    bool folds;                      /* some output is folded */
    const char *log_folder; /* all output in LOG/RUN/ATTEMPT/RANK; or NULL */
    lsi_rotation rotation;
    const char *report; /* file for run_report.h; or NULL */
    bool quiet_exit;    /* ranks report their errors themselves */
} lsi_launch_output;

/* Limits on the time of a job and on its restarts. */
typedef struct lsi_launch_limits {
    double timeout; /* seconds; 0: none */
    double grace; /* seconds that other ranks get after a failure, then between
                     SIGTERM and SIGKILL; that a stalled reader of the output
                     gets when the job has to end */
    int max_restarts; /* most restarts of all ranks */
} lsi_launch_limits;

/* A job on several nodes, each with a launcher. */
typedef struct lsi_launch_nodes {
    const char *endpoint;     /* HOST:PORT of the rendezvous */
    int least, most;          /* number of nodes that the job may have */
    int node;                 /* number of this node; -1: by arrival */
    double monitor_interval;  /* seconds; silence for 50 intervals: host lost */
    double join_seconds;      /* seconds to wait for enough nodes */
    double last_call_seconds; /* then seconds to wait for more than `least` */
} lsi_launch_nodes;

typedef struct lsi_launch_config {
    lsi_launch_ranks ranks;
    lsi_launch_output output;
    lsi_launch_limits limits;
    const lsi_launch_nodes *nodes; /* NULL: one node only, without a port */
} lsi_launch_config;

/*
 * Runs the program once for each rank and returns when all have ended. If one
 * fails, and nobody has asked for the end, all are started again, at most
 * max_restarts times. LOCKSTEP_RESTART tells them the number of restarts so
 * far. In a job of several nodes, a failure of any node's rank counts. Failures
 * of ranks are printed on stderr.
 *
 * *exit_status:
 * - 0 if all ended with 0
 * - the status of the first rank that failed; 128 + n if signal n killed it
 * - LSI_EXIT_TIMEOUT
 * - LSI_EXIT_NOT_FOUND or LSI_EXIT_CANNOT_RUN if the program could not be run
 *
 * All ranks get the signals SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2,
 * SIGTSTP and SIGCONT that this process receives (asking.h limits SIGUSR1). A
 * second request to end (INT, TERM, HUP, QUIT; signals.h defines it) ends them
 * after the grace.
 *
 * Rank 0 reads this process's standard input unless that is a terminal; the
 * others have no input. Call it from a process with one thread. An error here
 * means that nothing was started.
 */
ls_status lsi_launch(const lsi_launch_config *config, int *exit_status);

#endif

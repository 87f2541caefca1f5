/*
 * Starting the ranks of a job on this machine, and ending them.
 *
 * Three levels of processes make sure that nothing is ever left behind:
 *
 *     front        the caller of lsi_launch; passes signals on, waits
 *     supervisor   starts the ranks, watches them, ends them
 *     ranks        each the head of a process group of its own
 *
 * If the front is killed, the supervisor sees the pipe from it (`parent_pipe`)
 * close and kills every rank and whatever they started (it is the subreaper of
 * them all). If the supervisor is killed, the kernel kills the ranks
 * (parent-death signal) and their process groups (orphan_guard.h), and the
 * front kills whatever else they started.
 */
#ifndef LS_LAUNCH_LAUNCH_H
#define LS_LAUNCH_LAUNCH_H

#include <stdbool.h>

#include "launch/binding.h"
#include "launch/exit_status.h"
#include "launch/logs.h"
#include "lockstep/status.h"

enum {
    LSI_LAUNCH_MAX_RANKS = 1024, /* on a node */
    LSI_LAUNCH_MAX_NODES = 4096
};

/* Streams of a rank, as bits: torchrun's numbers. */
enum { LSI_STREAM_OUT = 1, LSI_STREAM_ERR = 2, LSI_STREAMS = 3 };

/* What the ranks of this node are started with. */
typedef struct lsi_launch_ranks {
    char *const *argv;  /* the program, found by PATH, and its arguments */
    const char *script; /* file that the program runs; NULL: none */
    int n;              /* 1..LSI_LAUNCH_MAX_RANKS */
    int threads;        /* OMP_NUM_THREADS of each; 0: lsi_threads_default */
    int master_port;    /* MASTER_PORT; 0: one that is free now */
    lsi_binding_mode bind;
    bool tells_places;  /* one line on stderr, before the ranks start */
    bool no_input;      /* rank 0 reads nothing either */
    const char *run_id; /* TORCHELASTIC_RUN_ID; NULL: a random one */
    const char *role;   /* ROLE_NAME; NULL: "default" */
} lsi_launch_ranks;

/* Where the output of one rank goes; all zeros: nowhere. */
typedef struct lsi_rank_output {
    unsigned char console; /* streams that this process's own ones show */
    unsigned char tagged;  /* of these, with "[rank] " before each line */
    unsigned char folded;  /* of these, as console.h says */
    unsigned char passed;  /* of these, through the launcher as they are */
} lsi_rank_output;

/* Where output goes. */
typedef struct lsi_launch_output {
    const lsi_rank_output *of_ranks; /* one each; NULL: all to the console, not
                                        through the launcher */
    bool folds;                      /* some output is folded */
    const char *log_folder; /* all output in LOG/RUN/ATTEMPT/RANK; or NULL */
    lsi_rotation rotation;
    const char *report; /* a file for run_report.h; or NULL */
    bool quiet_exit;    /* ranks report their own errors */
} lsi_launch_output;

/* How it ends, and whether it starts again. */
typedef struct lsi_launch_limits {
    double timeout;   /* seconds; 0: none */
    double grace;     /* seconds that the others get after a failure, again
                         between SIGTERM and SIGKILL, and that a stalled reader
                         of the output gets when the job is to end */
    int max_restarts; /* times that all ranks are started again */
} lsi_launch_limits;

/* A job whose ranks are started on several nodes, each by a launcher. */
typedef struct lsi_launch_nodes {
    const char *endpoint;     /* HOST:PORT, where they meet */
    int least, most;          /* nodes that the job may have */
    int node;                 /* this one's number; -1: by arrival */
    double monitor_interval;  /* 50 of them without a word: a host is lost */
    double join_seconds;      /* that are waited for enough nodes */
    double last_call_seconds; /* and then for more than `least` */
} lsi_launch_nodes;

typedef struct lsi_launch_config {
    lsi_launch_ranks ranks;
    lsi_launch_output output;
    lsi_launch_limits limits;
    const lsi_launch_nodes *nodes; /* NULL: this one only, and no port */
} lsi_launch_config;

/*
 * Runs the program once for each rank and returns when all have ended. If one
 * fails, and nobody has asked for the end, all are started again, at most
 * max_restarts times; LOCKSTEP_RESTART tells them how often that has happened.
 * *exit_status: 0 if all ended with 0; else that of the first that failed, 128
 * + n if signal n killed it; LSI_EXIT_TIMEOUT; LSI_EXIT_NOT_FOUND or
 * LSI_EXIT_CANNOT_RUN if the program could not be run. What went wrong with
 * the ranks is said on stderr. Of a job of several nodes the failure of a rank
 * of any of them counts. SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1,
 * SIGUSR2, SIGTSTP and SIGCONT that this process receives go to all ranks
 * (SIGUSR1: as asking.h says); a second request to end (INT, TERM, HUP, QUIT;
 * signals.h says what is one) ends them after the grace.
 *
 * Rank 0 reads this process's standard input unless that is a terminal, the
 * others read nothing. Call it from a process with one thread. An error here
 * means that nothing was started.
 */
ls_status lsi_launch(const lsi_launch_config *config, int *exit_status);

#endif

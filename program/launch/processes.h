/* The processes of a job, as the supervisor manages them. */
#ifndef LS_LAUNCH_PROCESSES_H
#define LS_LAUNCH_PROCESSES_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "launch/console.h"
#include "launch/environment.h"
#include "launch/launch.h"
#include "launch/output.h"
#include "launch/tag.h"

/*
 * The order in which ranks ended. waitpid() returns ended processes in the
 * order of their start, which would blame rank 0 for a consequence. The ready
 * list of an epoll has them in the order of their ends.
 */
typedef struct lsi_deaths {
    int epoll;
    int *pidfds; /* one for each rank, -1: none */
    int n;       /* 0: no rank is watched */
} lsi_deaths;

typedef struct lsi_processes {
    /* Members of all attempts, which lsi_processes_next does not change. */
    const lsi_launch_ranks *setup;   /* settings of the ranks */
    const lsi_launch_output *wanted; /* destinations of their output */
    int max_restarts;
    const struct rlimit *files; /* limit of descriptors of a rank; NULL: ours */
    const lsi_job_place *place; /* place of this node; NULL: the only one */
    const lsi_output *output;   /* output for messages, and for the tags */
    lsi_console *console;       /* console for the tags, or NULL */
    int orphan_guard;           /* 0: not opened yet, -1: none */
    bool warned_unguarded, warned_unannounced; /* for lack of descriptors */
    char run_id[33]; /* run id, unless the setup has one */

    int n;       /* number of ranks requested */
    int started; /* number of ranks started */
    int alive;   /* ranks started and not reaped yet */
    pid_t *pids; /* 0: not started, or reaped */
    lsi_deaths deaths;
    lsi_tag *tags;
    int n_tags;
    int *ended; /* descriptors that report a rank's end; -1: none */
    char job[sizeof(((lsi_job_identity *)NULL)->id)];
    int attempt; /* current attempt, from 0 */
} lsi_processes;

/* A rank that has ended; status as from waitpid. */
typedef struct lsi_process_end {
    int rank;
    pid_t pid;
    int status;
} lsi_process_end;

/*
 * Starts all ranks; set the members of all attempts first. Returns 0. On
 * failure prints the reason and returns the exit status of the job; ranks
 * started earlier are still alive.
 */
int lsi_processes_start(lsi_processes *ranks, const sigset_t *mask);

/*
 * Forgets the ranks of an attempt, which must all have ended, and their output,
 * so that the next attempt can be started.
 */
void lsi_processes_next(lsi_processes *ranks);

/* The pipe of a rank's stderr; NULL if this does not pass through here. */
const lsi_tag *lsi_processes_errors(const lsi_processes *ranks, int rank);

/* Files about a rank, which it writes when it fails. */
typedef enum lsi_end_file {
    LSI_ERROR_FILE, /* error file of a Python program */
    LSI_CRASH_FILE, /* observe/crash.h */
    LSI_RANK_FILES
} lsi_end_file;
enum { LSI_RANK_FILE_BYTES = 4608 };

/*
 * Name of the file: in the folder of the rank's logs, or else in the folder for
 * temporary files.
 */
void lsi_processes_file(const lsi_processes *ranks, int rank, lsi_end_file file,
                        char out[LSI_RANK_FILE_BYTES]);

/* The common run id of all attempts. */
const char *lsi_processes_run_id(const lsi_processes *ranks);

/* The number in the whole job of a rank of this node. */
int lsi_processes_rank(const lsi_processes *ranks, int local);

/* Removes such files, unless they are stored with the logs. */
void lsi_processes_clean(const lsi_processes *ranks);

/* Sends a signal to the process group of every rank that is alive. */
void lsi_processes_signal(const lsi_processes *ranks, int number);

/*
 * Reaps one rank that has ended, in the order of their ends; false if none has
 * ended.
 */
bool lsi_processes_reap(lsi_processes *ranks, lsi_process_end *ended);

/* Whether a rank that is not reaped yet has begun to end. */
bool lsi_processes_are_ending(const lsi_processes *ranks);

#endif

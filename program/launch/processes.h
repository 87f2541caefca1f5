/*
 * The processes of a job, as the supervisor holds them.
 */
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
 * In which order the ranks have ended. waitpid() hands out those that have
 * ended in the order in which they were started, which would blame rank 0 for
 * what it only noticed; the kernel's list of what is ready in an epoll has them
 * in the order of their ends.
 */
typedef struct lsi_deaths {
    int epoll;
    int *pidfds; /* of each rank, -1: none */
    int n;       /* 0: nobody is watched */
} lsi_deaths;

typedef struct lsi_processes {
    /* Of all attempts: lsi_processes_next leaves them as they are. */
    const lsi_launch_ranks *setup;   /* what they are started with */
    const lsi_launch_output *wanted; /* where their output goes */
    int max_restarts;
    const struct rlimit *files; /* of descriptors of a rank; NULL: ours */
    const lsi_job_place *place; /* of this node; NULL: it is the only one */
    const lsi_output *output;   /* for what is to be said, and for the tags */
    lsi_console *console;       /* for the tags, or NULL */
    int orphan_guard;           /* 0: not opened yet, -1: none */
    bool told_unguarded, told_unsaid; /* for want of descriptors */
    char run_id[33];                  /* unless the setup names one */

    int n;       /* asked for */
    int started; /* of these */
    int alive;   /* of these, not reaped yet */
    pid_t *pids; /* 0: not started, or reaped */
    lsi_deaths deaths;
    lsi_tag *tags;
    int n_tags;
    int *ended; /* what says that a rank has ended; -1: nothing */
    char job[sizeof(((lsi_job_identity *)NULL)->id)];
    int attempt; /* that is running, from 0 */
} lsi_processes;

/* A rank that has ended; status as from waitpid. */
typedef struct lsi_process_end {
    int rank;
    pid_t pid;
    int status;
} lsi_process_end;

/*
 * Starts all, with what is of all attempts set before. Returns 0; or, having
 * said on stderr what failed, the exit status of the job, with those alive that
 * had been started before.
 */
int lsi_processes_start(lsi_processes *ranks, const sigset_t *mask);

/*
 * Forgets the ranks of an attempt, which have all ended, with what they wrote:
 * the next one can be started.
 */
void lsi_processes_next(lsi_processes *ranks);

/* The pipe of a rank's stderr; NULL if that does not pass through here. */
const lsi_tag *lsi_processes_errors(const lsi_processes *ranks, int rank);

/* Files about a rank, which it writes when it fails. */
typedef enum lsi_end_file {
    LSI_ERROR_FILE, /* of a Python program */
    LSI_CRASH_FILE, /* observe/crash.h */
    LSI_RANK_FILES
} lsi_end_file;
enum { LSI_RANK_FILE_BYTES = 4608 };

/*
 * Its name: in the folder of the rank's logs, or else in that for temporary
 * files.
 */
void lsi_processes_file(const lsi_processes *ranks, int rank, lsi_end_file file,
                        char out[LSI_RANK_FILE_BYTES]);

/* What all attempts are called together. */
const char *lsi_processes_run_id(const lsi_processes *ranks);

/* The number in the whole job of a rank of this node. */
int lsi_processes_rank(const lsi_processes *ranks, int local);

/* Removes such files, unless they lie with the logs. */
void lsi_processes_clean(const lsi_processes *ranks);

/* Sends a signal to the process group of every rank that is alive. */
void lsi_processes_signal(const lsi_processes *ranks, int number);

/*
 * Reaps one rank that has ended, those that ended first first; false if there
 * is none right now.
 */
bool lsi_processes_reap(lsi_processes *ranks, lsi_process_end *ended);

/* Whether a rank that is not reaped yet has begun to end. */
bool lsi_processes_are_ending(const lsi_processes *ranks);

#endif

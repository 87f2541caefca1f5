/*
 * A job on several hosts, all of which this process starts: through ssh, or
 * another program that takes a host and a command line. On each it runs
 * `lockstep run --on-host` (ssh_agent.c) and tells it on its standard input to
 * run `lockstep run --nnodes ...`.
 */
#ifndef LS_LAUNCH_SSH_H
#define LS_LAUNCH_SSH_H

#include "launch/ssh_hosts.h"
#include "lockstep/status.h"

typedef struct lsi_ssh_config {
    lsi_ssh_hosts hosts;  /* at least one */
    const char *agent;    /* words with blanks between; NULL: ssh with flags */
    const char *endpoint; /* --rdzv-endpoint; NULL: the first host */
    char *const *flags;   /* other flags of `lockstep run`; to NULL */
    char *const *program; /* and its arguments; to NULL */
    char *const *variables; /* NAME=VALUE that the hosts get; to NULL */
    double grace; /* seconds between the first failure and the end of all */
} lsi_ssh_config;

/*
 * Returns when all hosts have ended. What they write is passed on line by line,
 * with the host's name in what their launchers say. Signals are passed on as
 * lsi_launch does. If this process dies, the hosts end all they have started.
 * *exit_status: that of the job; 1 if a host cannot be reached or has no
 * lockstep of this version, which is said in a sentence that names it.
 */
ls_status lsi_ssh_launch(const lsi_ssh_config *config, int *exit_status);

/*
 * `lockstep run --on-host`, on each host: reads on its standard input what to
 * run (ssh_message.h), starts the host's launcher, passes signals on to it, and
 * ends everything when the input ends: then the launcher that has started it,
 * or the connection, is gone. Returns the exit status of the host's launcher.
 */
int lsi_ssh_serve(void);

#endif

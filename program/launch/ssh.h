/*
 * A job on several hosts, all started by this process through ssh, or another
 * program that accepts a host and a command line. On each host it runs
 * `lockstep run --on-host` (ssh_agent.c) and sends on its standard input the
 * command `lockstep run --nnodes ...`.
 */
#ifndef LS_LAUNCH_SSH_H
#define LS_LAUNCH_SSH_H

#include "launch/ssh_hosts.h"
#include "lockstep/status.h"

typedef struct lsi_ssh_config {
    lsi_ssh_hosts hosts;  /* at least one */
    const char *agent;    /* words separated by blanks; NULL: ssh with flags */
    const char *endpoint; /* --rdzv-endpoint; NULL: the first host */
    char *const *flags;   /* other flags of `lockstep run`; NULL at the end */
    char *const *program; /* program and its arguments; NULL at the end */
    char *const *variables; /* NAME=VALUE for the hosts; NULL at the end */
    double grace; /* seconds between the first failure and the end of all */
} lsi_ssh_config;

/*
 * Returns when all hosts have ended. Their output is passed on line by line;
 * lines of their launchers get the host's name. Signals are forwarded as in
 * lsi_launch. If this process dies, the hosts end all they have started.
 *
 * *exit_status is the status of the job. It is 1 if a host cannot be reached or
 * does not have this version of lockstep; a message names the host.
 */
ls_status lsi_ssh_launch(const lsi_ssh_config *config, int *exit_status);

/*
 * `lockstep run --on-host`, on each host. It reads its command on its standard
 * input (ssh_message.h), starts the host's launcher and forwards signals to it.
 * When the input ends, it ends all processes: the launcher that started it, or
 * the connection, is gone. Returns the exit status of the host's launcher.
 */
int lsi_ssh_serve(void);

#endif

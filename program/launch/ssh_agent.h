/*
 * What `lockstep run --hosts` starts on each host over ssh: `lockstep run
 * --on-host`. It reads on its standard input what to run (ssh_message.h),
 * starts the host's launcher, passes signals on to it, and ends everything when
 * the input ends: then the launcher that has started it, or the connection, is
 * gone.
 */
#ifndef LS_LAUNCH_SSH_AGENT_H
#define LS_LAUNCH_SSH_AGENT_H

/* Returns the exit status of the host's launcher. */
int lsi_ssh_serve(void);

#endif

/*
 * What a rank does about SIGTERM. When a rank has ended, the launcher ends the
 * others: Open MPI by SIGTERM and, a second later, SIGKILL. A rank that waits
 * may not have noticed by then; so the signal does not end it at once: it has
 * half a second to find out and report what has happened. If it computes, or is
 * inside MPI and does not return, another thread reports which rank has died.
 * All that only with LOCKSTEP_SIGTERM=1, which the program `lockstep` sets
 * itself.
 *
 * MPICH, if it is told to leave the others alone, sends them SIGUSR1, which
 * would end them, and writing to a dead rank's socket raises SIGPIPE. Both are
 * caught and ignored. Programs that the rank starts get them as usual.
 */
#ifndef LS_COMM_HEALTH_SIGTERM_H
#define LS_COMM_HEALTH_SIGTERM_H

#include <stdbool.h>
#include <stdint.h>

#include "comm/state/state.h"

/*
 * Takes the signals from now on, unless the program handles them itself;
 * SIGTERM only if asked. The first group that is passed is the one about which
 * the other thread reports. LS_ERR_ARGUMENT if LOCKSTEP_SIGTERM makes no sense.
 */
ls_status lsi_sigterm_listen(const ls_group *group);

/*
 * For a program that handles SIGTERM itself and goes on for a while: lets the
 * other thread report which rank has died, if one has. May be called by a
 * handler, and does nothing if nobody has asked for reports.
 */
void lsi_sigterm_came(void);

/* The group is about to be closed. */
void lsi_sigterm_forget(const ls_group *group);

/*
 * Whether one has come; for how long that is known, in *since_ns: by the clock,
 * as the launcher that will send SIGKILL does not stop when this process does.
 */
bool lsi_sigterm_told(uint64_t *since_ns);

/* The rank itself has found and reported the reason. */
void lsi_sigterm_said(void);

#endif

/*
 * How a rank handles SIGTERM. When a rank has ended, the launcher ends the
 * others: Open MPI by SIGTERM and, a second later, SIGKILL. A rank that waits
 * may not have noticed by then, so the signal does not end it at once. The rank
 * has half a second to find out and report what has happened. If it computes,
 * or is inside MPI and does not return, another thread reports which rank has
 * died. All of this needs LOCKSTEP_SIGTERM=1, which the program `lockstep` sets
 * itself.
 *
 * MPICH, if told to leave the other ranks alone, sends them SIGUSR1, which
 * would end them. Writing to a dead rank's socket raises SIGPIPE. Both signals
 * are caught and ignored. Programs that the rank starts get them as usual.
 */
#ifndef LS_COMM_HEALTH_SIGTERM_H
#define LS_COMM_HEALTH_SIGTERM_H

#include <stdbool.h>
#include <stdint.h>

#include "comm/state/state.h"

/*
 * Handles the signals from now on, unless the program handles them itself;
 * SIGTERM only on request. The other thread reports about the first group that
 * is passed. LS_ERR_ARGUMENT if LOCKSTEP_SIGTERM has no valid value.
 */
ls_status lsi_sigterm_listen(const ls_group *group);

/*
 * For a program that handles SIGTERM itself and goes on for a while: lets the
 * other thread report which rank has died, if any. A handler may call it. Does
 * nothing if nobody has asked for reports.
 */
void lsi_sigterm_came(void);

/* The group is about to be closed. */
void lsi_sigterm_forget(const ls_group *group);

/*
 * Whether SIGTERM has come; since when that is known, in *since_ns. The time is
 * that of the clock, as the launcher that will send SIGKILL does not stop when
 * this process does.
 */
bool lsi_sigterm_received(uint64_t *since_ns);

/* The rank itself has found and reported the reason. */
void lsi_sigterm_reported(void);

#endif

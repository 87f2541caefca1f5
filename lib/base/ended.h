/*
 * How the launcher tells those ranks of its job that wait for another that it
 * has ended: it listens at a name which says so. Whoever looks finds it, sooner
 * or later, and nobody needs a descriptor of the launcher's or asks it; who
 * does not wait sees nothing of it.
 */
#ifndef LS_BASE_ENDED_H
#define LS_BASE_ENDED_H

#include <stdbool.h>

/*
 * A rank of the job (LOCKSTEP_JOB) has ended. Returns the descriptor that says
 * so until it is closed; -1 with errno if it cannot be said.
 */
int lsi_ended_publish(const char *job, int rank);

/* Whether a process of this user says so. */
bool lsi_has_ended(const char *job, int rank);

#endif

/*
 * The launcher publishes which ranks have ended, for the ranks that wait for
 * them. It listens at a socket name that stands for the job and the rank. Ranks
 * that wait check whether the name exists. They need no descriptor of the
 * launcher and send it nothing.
 */
#ifndef LS_BASE_ENDED_H
#define LS_BASE_ENDED_H

#include <stdbool.h>

/*
 * Publishes that a rank of the job (LOCKSTEP_JOB) has ended, until the returned
 * descriptor is closed. Returns -1 with errno on failure.
 */
int lsi_ended_publish(const char *job, int rank);

/* Whether a process of this user has published that the rank has ended. */
bool lsi_has_ended(const char *job, int rank);

#endif

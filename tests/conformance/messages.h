/*
 * What lies beside the matrix of algorithms: messages with tags, probes, calls
 * with counts of their own in flight, and sums of products. By threads,
 * processes and whatever carries messages between hosts.
 */
#ifndef LS_TEST_CONFORMANCE_MESSAGES_H
#define LS_TEST_CONFORMANCE_MESSAGES_H

#include "lockstep/group.h"

/* Collective. Checks itself. */
void run_messages(ls_group *group);

#endif

/*
 * Cases outside the matrix of algorithms: messages with tags, probes, calls
 * in flight whose counts differ between ranks, and sums of products. By
 * threads, processes and whatever carries messages between hosts.
 */
#ifndef LS_TEST_CONFORMANCE_MESSAGES_H
#define LS_TEST_CONFORMANCE_MESSAGES_H

#include "lockstep/group.h"

/* Collective. Checks itself. */
void run_messages(ls_group *group);

#endif

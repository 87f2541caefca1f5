/*
 * Reading the private memory of other ranks.
 */
#ifndef LS_COMM_NODE_REMOTE_H
#define LS_COMM_NODE_REMOTE_H

#include "comm/state/state.h"

/* Makes this rank readable and says what the others may try to read. */
void lsi_remote_offer(lsi_member *self);

/* Whether this rank can really read every other rank's memory. */
bool lsi_remote_probe(const ls_group *group);

/* Copies from an address of another rank. On errors the group has failed. */
ls_status lsi_remote_read(ls_group *group, int rank, void *to, uint64_t from,
                          size_t bytes);

#endif

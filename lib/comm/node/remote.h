/*
 * Reading the private memory of other ranks.
 */
#ifndef LS_COMM_NODE_REMOTE_H
#define LS_COMM_NODE_REMOTE_H

#include "comm/state/state.h"

/* Publishes the word that the others may try to read. */
void lsi_remote_offer(lsi_member *self);

/*
 * Lets the ranks of the group read this one's memory, as far as the process may
 * decide that, until it is dismissed. All members must have entered, and must
 * synchronize once more before they try.
 */
void lsi_remote_admit(ls_group *group);
void lsi_remote_dismiss(ls_group *group);

/* Whether this rank can really read every other rank's memory. */
bool lsi_remote_probe(const ls_group *group);

/* Copies from an address of another rank. On errors the group has failed. */
ls_status lsi_remote_read(ls_group *group, int rank, void *to, uint64_t from,
                          size_t bytes);

#endif

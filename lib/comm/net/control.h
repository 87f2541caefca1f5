/*
 * Control messages, which ranks of different nodes send each other outside
 * collectives: the rank they wait for, that they leave, that the group has
 * failed.
 */
#ifndef LS_COMM_NET_CONTROL_H
#define LS_COMM_NET_CONTROL_H

#include "comm/net/internode.h"

/* From now on this rank receives control messages. */
ls_status lsi_control_listen(ls_group *group);

/*
 * Handles the messages that have arrived, and sends the pending ones. Ignores a
 * message that names a rank outside the group, or has the wrong length.
 */
ls_status lsi_control_progress(ls_group *group);

/* As lsi_internode_hooks has them. */
void lsi_control_announce_awaits(ls_group *group);
void lsi_control_announce_failure(ls_group *group,
                                  const lsi_failure_record *failure);
void lsi_control_abandon(ls_group *group);

void lsi_control_announce_leaving(ls_group *group);

#endif

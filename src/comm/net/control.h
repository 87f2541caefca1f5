/*
 * What ranks of different nodes tell each other out of turn: whom they wait
 * for, that they leave, that the group has failed.
 */
#ifndef LS_COMM_NET_CONTROL_H
#define LS_COMM_NET_CONTROL_H

#include "comm/net/internode.h"

/* From now on this rank hears what others say. */
ls_status lsi_control_listen(ls_group *group);

/* Takes in what has come, and says what is left to be said. */
ls_status lsi_control_progress(ls_group *group);

/* As lsi_internode_hooks has them. */
void lsi_control_tell_awaits(ls_group *group);
void lsi_control_tell_failure(ls_group *group, const lsi_failure *failure);
void lsi_control_abandon(ls_group *group);

void lsi_control_tell_leaving(ls_group *group);

#endif

/*
 * Finding out why nothing moves, by a rank that waits.
 */
#ifndef LS_COMM_CORE_PEERS_H
#define LS_COMM_CORE_PEERS_H

#include "comm/state/state.h"

/* Looks for ranks that disagree, have died or have left. Not for hot paths. */
ls_status lsi_check_peers(ls_group *group);

/*
 * Fails the group because others did not come in time, be it that this rank was
 * told to end before (sigterm.h).
 */
ls_status lsi_time_out(ls_group *group, bool told_to_end);

#endif

/*
 * How a waiting rank finds out why nothing moves.
 */
#ifndef LS_COMM_CORE_PEERS_H
#define LS_COMM_CORE_PEERS_H

#include "comm/state/state.h"

/* Looks for ranks that disagree, have died or have left. Not for hot paths. */
ls_status lsi_check_peers(ls_group *group);

/*
 * Fails the group because other ranks did not arrive in time, or because this
 * rank got SIGTERM (sigterm.h).
 */
ls_status lsi_time_out(ls_group *group, bool got_sigterm);

#endif

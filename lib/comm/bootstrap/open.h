/*
 * The steps that ls_group_open and ls_group_open_by share.
 */
#ifndef LS_COMM_BOOTSTRAP_OPEN_H
#define LS_COMM_BOOTSTRAP_OPEN_H

#include "comm/bootstrap/nodes.h"

/* The member `prepare` of lsi_reach: UCX on the route to `address`. */
ls_status lsi_open_prepare(void *context, const lsi_world *world,
                           const char *address, double seconds,
                           lsi_opened_wire *out);

/*
 * Sets the timeout of a group whose ranks have connected, selects its
 * algorithms and limits this rank's CPUs. Owns `made`: it becomes *out, or is
 * closed. Collective.
 */
ls_status lsi_open_finish(ls_group *made, double seconds, ls_group **out);

#endif

/*
 * Arrivals in collectives, passed on between nodes.
 */
#ifndef LS_COMM_NET_ARRIVALS_H
#define LS_COMM_NET_ARRIVALS_H

#include "comm/net/internode.h"

ls_status lsi_arrivals_open(lsi_arrivals *arrivals, size_t ranks);
void lsi_arrivals_close(lsi_arrivals *arrivals);

/* Passes on what can be; does nothing on any but a node's first rank. */
ls_status lsi_arrivals_progress(ls_group *group);

#endif

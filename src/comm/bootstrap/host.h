/*
 * Rank 0's side of the rendezvous.
 */
#ifndef LS_COMM_BOOTSTRAP_HOST_H
#define LS_COMM_BOOTSTRAP_HOST_H

#include "comm/bootstrap/environment.h"
#include "comm/bootstrap/socket.h"
#include "lockstep/group.h"

ls_status lsi_host(const lsi_world *world, lsi_deadline deadline,
                   ls_group **out);

#endif

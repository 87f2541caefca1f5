/*
 * Rank 0's side of the rendezvous.
 */
#ifndef LS_COMM_BOOTSTRAP_RENDEZVOUS_SERVER_H
#define LS_COMM_BOOTSTRAP_RENDEZVOUS_SERVER_H

#include "comm/bootstrap/environment.h"
#include "comm/bootstrap/socket.h"
#include "lockstep/group.h"

ls_status lsi_rendezvous_serve(const lsi_world *world, lsi_deadline deadline,
                               ls_group **out);

#endif

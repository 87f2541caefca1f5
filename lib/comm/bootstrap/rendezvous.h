/*
 * How processes that share nothing but a name come to share memory.
 *
 * Rank 0 listens on an abstract unix socket: it has no file, needs no clean-up
 * and vanishes with the process. The others connect and say who they are;
 * rank 0 hands each a descriptor of one memfd; all open their group and say so;
 * rank 0 tells all to go. Whatever goes wrong, rank 0 tells everybody why.
 */
#ifndef LS_COMM_BOOTSTRAP_RENDEZVOUS_H
#define LS_COMM_BOOTSTRAP_RENDEZVOUS_H

#include "comm/bootstrap/socket.h"
#include "comm/bootstrap/transports.h"

/*
 * Ranks that wait look so often whether those they miss have ended, and say
 * after so long whom they wait for.
 */
enum { LSI_LOOK_MS = 100 };
#define LSI_SAY_SECONDS 5.0

/* Rank 0's side. */
ls_status lsi_rendezvous_serve(const lsi_world *world, lsi_deadline deadline,
                               ls_group **out);

#endif

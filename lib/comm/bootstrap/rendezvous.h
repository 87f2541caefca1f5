/*
 * How processes that share only a name get to share memory.
 *
 * Rank 0 listens on an abstract unix socket: it has no file, needs no clean-up
 * and vanishes with the process. The others connect and send their rank; rank 0
 * sends each a descriptor of one memfd. All open their group and report it;
 * rank 0 tells all to go. On any error, rank 0 sends the reason to all ranks.
 */
#ifndef LS_COMM_BOOTSTRAP_RENDEZVOUS_H
#define LS_COMM_BOOTSTRAP_RENDEZVOUS_H

#include "comm/bootstrap/socket.h"
#include "comm/bootstrap/transports.h"

/*
 * Milliseconds between two checks of a waiting rank whether missing ranks have
 * ended, and seconds until it logs which ranks it waits for.
 */
enum { LSI_CHECK_MS = 100 };
#define LSI_LOG_SECONDS 5.0

/* Rank 0's side. */
ls_status lsi_rendezvous_serve(const lsi_world *world, lsi_deadline deadline,
                               ls_group **out);

#endif

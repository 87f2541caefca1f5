/*
 * The user at the other end of a TCP connection within this machine, from the
 * kernel's table of connections.
 */
#ifndef LS_COMM_RENDEZVOUS_SAME_USER_H
#define LS_COMM_RENDEZVOUS_SAME_USER_H

#include "lockstep/status.h"

/*
 * For an endpoint without a secret. LS_ERR_MISMATCH if the other end belongs to
 * another user, root aside; LS_ERR_PEER_DEAD if it has closed the connection.
 * Where the kernel does not show its table, nobody is refused. The other end's
 * program must have accepted the connection.
 */
ls_status lsi_same_user_check(int fd);

#endif

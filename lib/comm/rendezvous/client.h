/*
 * The store that `lockstep run` serves for the ranks of several nodes, as a
 * rank reaches it.
 */
#ifndef LS_COMM_RENDEZVOUS_CLIENT_H
#define LS_COMM_RENDEZVOUS_CLIENT_H

#include "comm/rendezvous/store.h"

/*
 * Connects to HOST:PORT within `seconds` (0: no limit) and fills *out, which
 * belongs to the caller; lsi_store_disconnect ends it. `secret` is that of the
 * server. NULL if the server has none: then both must be on one machine, by a
 * loopback address.
 *
 * Errors name the endpoint: LS_ERR_ARGUMENT (no endpoint, a host that does not
 * resolve), LS_ERR_TIMEOUT, LS_ERR_MISMATCH (another secret, no secret, another
 * version), LS_ERR_PEER_DEAD (nobody serves there), LS_ERR_FORMAT (another
 * program serves there).
 */
ls_status lsi_store_connect(const char *endpoint, const char *secret,
                            double seconds, ls_store *out);

/* Of NULL or of a store that is all zeros: nothing. */
void lsi_store_disconnect(ls_store *store);

#endif

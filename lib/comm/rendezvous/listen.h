/*
 * The socket of the rendezvous.
 */
#ifndef LS_COMM_RENDEZVOUS_LISTEN_H
#define LS_COMM_RENDEZVOUS_LISTEN_H

#include "comm/rendezvous/endpoint.h"
#include "comm/rendezvous/server.h"

/* See lsi_store_serve. */
ls_status lsi_store_listen(const lsi_endpoint *endpoint, bool has_secret,
                           int *out, lsi_store_refusal *why);

#endif

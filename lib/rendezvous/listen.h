/*
 * The socket of the rendezvous.
 */
#ifndef LS_RENDEZVOUS_LISTEN_H
#define LS_RENDEZVOUS_LISTEN_H

#include "rendezvous/endpoint.h"
#include "rendezvous/server.h"

/* See lsi_store_serve. */
ls_status lsi_store_listen(const lsi_endpoint *endpoint, bool has_secret,
                           int *out, lsi_store_refusal *why);

#endif

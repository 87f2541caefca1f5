/*
 * The network interface of a host by which the other hosts reach it.
 */
#ifndef LS_COMM_RENDEZVOUS_INTERFACE_H
#define LS_COMM_RENDEZVOUS_INTERFACE_H

#include <net/if.h>
#include <stdbool.h>

#include "lockstep/status.h"

typedef struct lsi_interface {
    char name[IF_NAMESIZE];
    char address[64]; /* its number */
    const char *why;  /* "LOCKSTEP_INTERFACE", "the route to the endpoint" */
} lsi_interface;

/*
 * Whether a name is one of a list, in the forms of NCCL_SOCKET_IFNAME: names
 * begin with one of "eth,ib"; are one of "=eth0,eth1"; begin with none of
 * "^docker,lo"; are none of "^=eth0".
 */
bool lsi_interface_matches(const char *list, const char *name);

/*
 * The interface that `list` (LOCKSTEP_INTERFACE) allows. If it is NULL or "",
 * the interface of the route to the endpoint. If the endpoint is this host's
 * own name with a loopback address, as Debian's installer makes it, that of the
 * default route.
 *
 * Of several allowed ones it is that of the route, else the first with an
 * address of the endpoint's family. Loopback counts only if the list names it
 * or the endpoint is on it. LS_ERR_ARGUMENT if none is left, with a list of the
 * existing ones.
 */
ls_status lsi_interface_choose(const char *list, const char *endpoint,
                               lsi_interface *out);

/*
 * The address by which other hosts probably reach this one: that of the default
 * route, else the first that is not a loopback address; "" without one.
 */
void lsi_interface_address(char *text, size_t bytes);

#endif

/*
 * Opening the wire over UCX, one for each process.
 */
#ifndef LS_COMM_BOOTSTRAP_OPEN_UCX_H
#define LS_COMM_BOOTSTRAP_OPEN_UCX_H

#include "comm/bootstrap/nodes.h"

/*
 * Loads the module and starts UCX on the interface LOCKSTEP_INTERFACE, or on
 * that of the route to `endpoint` (HOST or HOST:PORT). A process that has
 * started UCX keeps using it. Local.
 */
ls_status lsi_open_ucx(const lsi_world *world, const char *endpoint,
                       double seconds, lsi_opened_wire *out);

#endif

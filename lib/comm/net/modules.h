/* Loading the modules that speak to other nodes. */
#ifndef LS_COMM_NET_MODULES_H
#define LS_COMM_NET_MODULES_H

#include "comm/state/wire.h"
#include "lockstep/status.h"

/* As lsi_module_load. */
ls_status lsi_wire_load(const char *name, const lsi_wire **out);

#endif

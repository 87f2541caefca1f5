/*
 * Finding and loading the modules that speak to other nodes. They lie in a
 * folder beside the library that is named for the version:
 * lockstep-0.1/liblockstep-NAME.so.
 */
#ifndef LS_COMM_NET_MODULES_H
#define LS_COMM_NET_MODULES_H

#include <stdbool.h>

#include "comm/state/wire.h"
#include "lockstep/status.h"

bool lsi_module_is_there(const char *name);

/* Loads one, which stays for ever. LS_ERR_UNSUPPORTED if it cannot be used. */
ls_status lsi_module_load(const char *name, const lsi_wire **out);

#endif

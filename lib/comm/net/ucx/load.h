/*
 * The module over UCX, and what it is to use.
 */
#ifndef LS_COMM_NET_UCX_LOAD_H
#define LS_COMM_NET_UCX_LOAD_H

#include <stdbool.h>

#include "comm/state/wire.h"
#include "lockstep/status.h"

enum { LSI_UCX_DEVICES_BYTES = 512 };

/*
 * Loads the module. UCX is told to leave signals, memory and stdout alone, as
 * far as the user has not told it otherwise (UCX_HANDLE_ERRORS and so on).
 */
ls_status lsi_ucx_load(const lsi_wire **out);

/*
 * A value for UCX_NET_DEVICES: an interface with its RDMA device, if it has
 * one; or, if that one was not told for, with all RDMA devices that are up.
 * `sys` is where the kernel shows devices: /sys.
 */
void lsi_ucx_devices(const char *sys, const char *interface, bool told,
                     char devices[LSI_UCX_DEVICES_BYTES]);

#endif

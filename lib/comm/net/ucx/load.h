/*
 * The module over UCX, and the devices that it uses.
 */
#ifndef LS_COMM_NET_UCX_LOAD_H
#define LS_COMM_NET_UCX_LOAD_H

#include <stdbool.h>

#include "comm/state/wire.h"
#include "lockstep/status.h"

enum { LSI_UCX_DEVICES_BYTES = 512 };

/*
 * Loads the module. Tells UCX to leave signals, memory and stdout alone, unless
 * the user has set the variables (UCX_HANDLE_ERRORS and so on).
 */
ls_status lsi_ucx_load(const lsi_wire **out);

/*
 * A value for UCX_NET_DEVICES: an interface with its RDMA device, if it has
 * one. If the interface was not set explicitly, all RDMA devices that are up
 * instead. `sys` is the folder where the kernel shows devices: /sys.
 */
void lsi_ucx_devices(const char *sys, const char *interface, bool given,
                     char devices[LSI_UCX_DEVICES_BYTES]);

#endif

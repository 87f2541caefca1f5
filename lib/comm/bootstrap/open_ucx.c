#include "comm/bootstrap/open_ucx.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/log.h"
#include "comm/net/internode.h"
#include "comm/net/ucx/load.h"
#include "comm/rendezvous/interface.h"
#include "comm/state/forks.h"
#include "lockstep/version.h"

static ls_status load(const lsi_wire **out)
{
    const ls_status status = lsi_ucx_load(out);
    if (status == LS_OK)
        return LS_OK;
    return lsi_fail(status,
                    "these ranks are on several machines, which UCX joins, "
                    "but %s; install libucx-dev and build the library again, "
                    "by CMake or pip, or install the package "
                    "liblockstep%d.%d-ucx, and say by LOCKSTEP_MODULES where "
                    "it is if that is not next to the library",
                    ls_last_error(), LS_VERSION_MAJOR, LS_VERSION_MINOR);
}

/* Called under the lock of the wire. */
static ls_status start(const lsi_wire *wire, const lsi_world *world,
                       const char *endpoint, double seconds,
                       lsi_wire_opened *out)
{
    static bool opened;
    const char *told = getenv("LOCKSTEP_INTERFACE");
    char devices[LSI_UCX_DEVICES_BYTES] = "";
    lsi_interface interface = {.name = ""};
    if (!opened) {
        LS_TRY(lsi_interface_choose(told, endpoint, &interface));
        lsi_ucx_devices("/sys", interface.name, told != NULL && *told != '\0',
                        devices);
    }
    const lsi_wire_start how = {
        .size = world->size, .seconds = seconds, .devices = devices};
    if (wire->open(&how, out) != 0)
        return lsi_fail(LS_ERR_SYSTEM, "UCX over %s: %s", devices,
                        wire->error());
    if (!opened)
        lsi_log(LS_LOG_INFO,
                "other machines are reached by %s over %s (%s, %s)",
                wire->library, devices, interface.why, interface.address);
    opened = true;
    return LS_OK;
}

ls_status lsi_open_ucx(const lsi_world *world, const char *endpoint,
                       double seconds, lsi_opened_wire *out)
{
    static _Atomic unsigned begun; /* 1 + what lsi_forks was */
    const lsi_wire *wire = NULL;
    unsigned none = 0;
    if (!atomic_compare_exchange_strong(&begun, &none, lsi_forks + 1) &&
        none != lsi_forks + 1)
        return lsi_fail(LS_ERR_UNSUPPORTED,
                        "this process was forked by one that had started UCX, "
                        "which a child cannot use; start a new process instead "
                        "(fork and exec, or Python's spawn)");
    lsi_wire_lock();
    ls_status status = load(&wire);
    if (status == LS_OK)
        status = start(wire, world, endpoint, seconds, &out->as);
    lsi_wire_unlock();
    if (status == LS_OK)
        out->wire = wire;
    return status;
}

#include "comm/bootstrap/open_ucx.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/log.h"
#include "base/module.h"
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
    if (lsi_module_is_there("ucx"))
        return lsi_fail(
            status,
            "ranks on several machines need UCX, but %s. Install UCX; "
            "on Debian and Ubuntu it is the package libucx0",
            ls_last_error());
    return lsi_fail(status,
                    "ranks on several machines need UCX, but %s. Install the "
                    "package liblockstep%d.%d-ucx, or install libucx-dev and "
                    "build the library again. If the module is not next to the "
                    "library, set LOCKSTEP_MODULES to its folder",
                    ls_last_error(), LS_VERSION_MAJOR, LS_VERSION_MINOR);
}

/* Called under the lock of the wire. */
static ls_status start(const lsi_wire *wire, const lsi_world *world,
                       const char *endpoint, double seconds,
                       lsi_wire_opened *out)
{
    static bool opened;
    const char *list = getenv("LOCKSTEP_INTERFACE");
    char devices[LSI_UCX_DEVICES_BYTES] = "";
    lsi_interface interface = {.name = ""};
    if (!opened) {
        LS_TRY(lsi_interface_choose(list, endpoint, &interface));
        lsi_ucx_devices("/sys", interface.name, list != NULL && *list != '\0',
                        devices);
    }
    const lsi_wire_start how = {
        .size = world->size, .seconds = seconds, .devices = devices};
    if (wire->open(&how, out) != 0)
        return lsi_fail(LS_ERR_SYSTEM,
                        "cannot start UCX on network devices '%s': %s", devices,
                        wire->error());
    if (!opened)
        lsi_log(LS_LOG_INFO,
                "connecting to other machines with %s over %s (chosen by %s, "
                "address %s)",
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
                        "this process is a fork of a process that uses UCX, "
                        "and a forked child cannot use UCX; start a new "
                        "process instead (fork and exec, or spawn in Python)");
    lsi_wire_lock();
    ls_status status = load(&wire);
    if (status == LS_OK)
        status = start(wire, world, endpoint, seconds, &out->as);
    lsi_wire_unlock();
    if (status == LS_OK)
        out->wire = wire;
    return status;
}

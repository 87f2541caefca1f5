/*
 * Ranks started by an MPI launcher connect by MPI's own all-gather. If all are
 * on one node, they do not need MPI afterwards.
 */
#include "base/error.h"
#include "comm/bootstrap/nodes.h"
#include "comm/bootstrap/transports.h"
#include "comm/net/mpi/modules.h"

/* MPI can neither be left nor started twice in a process. */
static const lsi_wire *wire;

static ls_status begin(void *context, const lsi_world *world, double seconds)
{
    (void)context;
    LS_TRY(lsi_mpi_load(&wire));
    return lsi_mpi_join(wire, world->rank, world->size, seconds);
}

static ls_status gather(void *context, const void *send, size_t bytes,
                        void *recv, double seconds)
{
    (void)context;
    const int result = wire->gather(send, bytes, recv, seconds);
    if (result == 0)
        return LS_OK;
    return lsi_fail(result == LSI_WIRE_LATE ? LS_ERR_TIMEOUT : LS_ERR_SYSTEM,
                    "the ranks cannot connect through MPI: %s", wire->error());
}

static ls_status prepare(void *context, const lsi_world *world,
                         const char *address, double seconds,
                         lsi_opened_wire *out)
{
    (void)context, (void)address, (void)seconds;
    *out = (lsi_opened_wire){.wire = wire,
                             .as = {.rank = world->rank, .size = world->size}};
    return LS_OK;
}

static void end(void *context)
{
    (void)context;
    wire->close();
}

ls_status lsi_meet_by_mpi(const lsi_world *world, double seconds,
                          ls_group **out)
{
    static lsi_world alone;
    static const lsi_reach reach = {.begin = begin,
                                    .gather = gather,
                                    .prepare = prepare,
                                    .end = end,
                                    .alone = &alone,
                                    .minds_signals = true};
    return lsi_meet_on_nodes(&reach, world, seconds, out);
}

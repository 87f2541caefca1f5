/*
 * How ranks that may be on several machines become a group, once there is a way
 * to tell each other where they are.
 *
 * Each tells all others its place (kernel, network namespace, user). Those that
 * are in one place meet there as on one machine: what makes them a node is that
 * they have mapped the same memory. If all are on one node, that is all.
 */
#ifndef LS_COMM_BOOTSTRAP_NODES_H
#define LS_COMM_BOOTSTRAP_NODES_H

#include <stdint.h>

#include "comm/bootstrap/environment.h"
#include "comm/state/wire.h"
#include "lockstep/group.h"

/*
 * A number that is equal for processes which may share memory. One boot of one
 * kernel; one network namespace, which the meeting's sockets do not leave; one
 * user; and LOCKSTEP_HOSTID, which separates ranks that would otherwise share a
 * node.
 */
uint64_t lsi_own_place(void);

typedef struct lsi_opened_wire {
    const lsi_wire *wire;
    lsi_wire_opened as;
} lsi_opened_wire;

/* By what the ranks reach each other. All but `prepare` are collective. */
typedef struct lsi_reach {
    void *context; /* is passed on */
    /* Makes `gather` work; NULL if it does already. */
    ls_status (*begin)(void *context, const lsi_world *world, double seconds);
    /* recv[r * bytes ...] = what rank r sends. */
    ls_status (*gather)(void *context, const void *send, size_t bytes,
                        void *recv, double seconds);
    /*
     * Local: the wire, and where it reaches this process. `address` is where a
     * rank of another place is, by its default route, or "".
     */
    ls_status (*prepare)(void *context, const lsi_world *world,
                         const char *address, double seconds,
                         lsi_opened_wire *out);
    /* The ranks are all on one node and need this no more. NULL: nothing. */
    void (*end)(void *context);
    /*
     * Whether a rank of this place is known to have died since the first
     * gather; NULL if somebody else minds that. Local.
     */
    bool (*has_died)(void *context, int rank);
    /* Keeps the ranks of one node, which then meet again without all that. */
    lsi_world *alone; /* or NULL */
    /* Whether a launcher's signals are minded; see health/sigterm.h. */
    bool minds_signals;
} lsi_reach;

ls_status lsi_meet_on_nodes(const lsi_reach *reach, const lsi_world *world,
                            double seconds, ls_group **out);

#endif

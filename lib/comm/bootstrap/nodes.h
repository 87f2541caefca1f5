/*
 * How ranks that may be on several machines become a group, once they can
 * exchange their places.
 *
 * Each rank sends its place (kernel, network namespace, user) to all others.
 * The ranks of one place connect as on one machine: they are a node once they
 * have mapped the same memory. If all ranks are on one node, the group is
 * complete.
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
    /* recv[r * bytes ...] = the bytes that rank r sends. */
    ls_status (*gather)(void *context, const void *send, size_t bytes,
                        void *recv, double seconds);
    /*
     * Local: the wire, and this process's address on it. `address` is the host
     * of a rank of another place, by its default route, or "".
     */
    ls_status (*prepare)(void *context, const lsi_world *world,
                         const char *address, double seconds,
                         lsi_opened_wire *out);
    /* The ranks are all on one node and need this no more. NULL: nothing. */
    void (*end)(void *context);
    /*
     * Whether a rank of this place is known to have died since the first
     * gather; NULL if other code watches for dead ranks. Local.
     */
    bool (*has_died)(void *context, int rank);
    /* Receives the ranks of one node, which can then connect again directly. */
    lsi_world *alone; /* or NULL */
    /* Whether a launcher's signals are minded; see health/sigterm.h. */
    bool minds_signals;
} lsi_reach;

/*
 * LS_OK on all ranks if `able` is LS_OK on all. Otherwise an error on all: a
 * rank that is not able gets its own, the others its reason. `gather` works
 * without `begin`. Collective.
 */
ls_status lsi_meet_agreed(const lsi_reach *reach, const lsi_world *world,
                          ls_status able, double seconds);

ls_status lsi_meet_on_nodes(const lsi_reach *reach, const lsi_world *world,
                            double seconds, ls_group **out);

#endif

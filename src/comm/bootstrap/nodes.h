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

/* By what the ranks reach each other. All but `prepare` are collective. */
typedef struct lsi_reach {
    /* Makes `gather` work. */
    ls_status (*begin)(const lsi_world *world, double seconds);
    /* recv[r * bytes ...] = what rank r sends. */
    ls_status (*gather)(const void *send, size_t bytes, void *recv,
                        double seconds);
    /* What may fail on one rank before the wire is opened. */
    ls_status (*prepare)(void);
    /* The wire, open. */
    ls_status (*open)(const lsi_world *world, double seconds,
                      const lsi_wire **out);
    /* The ranks are all on one node and need this no more. */
    void (*end)(void);
} lsi_reach;

/* Ranks that have found out that they are on one node may meet again. */
ls_status lsi_meet_on_nodes(const lsi_reach *reach, const lsi_world *world,
                            double seconds, ls_group **out);

#endif

/*
 * The rank that each rank waits for. A rank that waits for long notes it where
 * the other ranks of its node can read it, and tells the other nodes at half of
 * the timeout. A rank that gives up follows these notes from rank to rank. It
 * names the last one, which waits for nobody as far as known, not one that is
 * stuck for the same reason as itself.
 *
 * Two cases stay unknown: ranks of other nodes that began to wait too late to
 * have told anybody yet, and ranks that wait in another group.
 */
#ifndef LS_COMM_HEALTH_AWAITED_H
#define LS_COMM_HEALTH_AWAITED_H

#include "comm/state/state.h"

/* Whether a rank has yet to reach the point that this rank waits for. */
bool lsi_is_behind(const ls_group *group, int rank);

/* The first other rank that is behind, on this node or elsewhere; -1: none. */
int lsi_first_behind(const ls_group *group, bool on_node);

/* Notes which rank this one waits for. */
void lsi_awaited_note(ls_group *group);

/*
 * Publishes the call and the rank that this rank waits for, for `lockstep top`;
 * lsi_awaited_hide withdraws them.
 */
void lsi_awaited_show(const ls_group *group, lsi_patience *patience);
void lsi_awaited_hide(lsi_patience *patience);

/* This rank waits no longer. `announced`: other nodes know that it waited. */
void lsi_awaited_forget(ls_group *group, bool announced);

/* The end of the chain that begins here; this rank itself if unknown. */
int lsi_awaited_last(const ls_group *group);

#endif

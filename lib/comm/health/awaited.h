/*
 * Whom a rank waits for. Ranks that wait for long write it down where those of
 * their node can read it, and tell the other nodes at half of the timeout: who
 * gives up can follow from one to the next, and names the last, who waits for
 * nobody as far as is known, instead of one that is stuck for the same reason
 * as itself. What is not known: ranks of other nodes that began to wait so
 * late that they have not told yet, and those that wait in another group.
 */
#ifndef LS_COMM_HEALTH_AWAITED_H
#define LS_COMM_HEALTH_AWAITED_H

#include "comm/state/state.h"

/* Whether a rank has yet to reach what this rank waits for. */
bool lsi_is_behind(const ls_group *group, int rank);

/* The first other rank that is; of this node, or of the others. -1: none. */
int lsi_first_behind(const ls_group *group, bool on_node);

/* Writes down whom this rank waits for. */
void lsi_awaited_note(ls_group *group);

/*
 * Shows what this rank waits for, and for whom, where `lockstep top` sees it;
 * takes that back.
 */
void lsi_awaited_show(const ls_group *group, lsi_patience *patience);
void lsi_awaited_hide(lsi_patience *patience);

/* It waits no longer; `told`: and the other nodes should know. */
void lsi_awaited_forget(ls_group *group, bool told);

/* The end of the chain that begins here; this rank itself if not known. */
int lsi_awaited_last(const ls_group *group);

#endif

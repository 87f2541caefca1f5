/*
 * Shared buffers: finding them again by address, and by rank.
 */
#ifndef LS_COMM_NODE_SHARED_H
#define LS_COMM_NODE_SHARED_H

#include "comm/state/state.h"

/* The allocation that holds `data` in this rank's part, or NULL. */
const lsi_shared *lsi_shared_find(const ls_group *group, const void *data);

/*
 * A word by which other ranks find the same bytes: they pass it to resolve
 * with the rank that made it. 0 if others cannot see `data`.
 */
uint64_t lsi_shared_token(const ls_group *group, const void *data);
void *lsi_shared_resolve(const ls_group *group, uint64_t token, int rank);

/* The same place in the part of this node's first rank. */
void *lsi_shared_first_here(const ls_group *group, const void *data);

/*
 * Copies bytes of a buffer from ls_shared_alloc to the same place of all other
 * ranks' parts. The other ranks see them after the next collective, and must
 * not use them until then. Local. Threads may each push a range; when all have,
 * one thread reports the total number of bytes, so that they are counted.
 */
void lsi_shared_push(const ls_group *group, const void *data, size_t bytes);
void lsi_shared_pushed(const ls_group *group, size_t bytes);

/*
 * Gives pages back, of any rank's part: they read as zero then, and whole ones
 * take no memory. Nobody else may use them at the time. Local.
 */
void lsi_shared_discard(const ls_group *group, const void *data, size_t bytes);

/*
 * Frees the buffers that the user has not freed. A process that is not a member
 * just unmaps them.
 */
void lsi_shared_forget(ls_group *group, bool is_member);

/* ---- making and dropping ------------------------------------------------- */

/* How an allocation is laid out: a part for each rank, then the hold. */
typedef struct lsi_shared_shape {
    size_t bytes, stride, mapped;
} lsi_shared_shape;

lsi_shared_shape lsi_shared_shape_of(const ls_group *group, size_t bytes);

/*
 * Chooses the id of the next allocation. It is the same on all ranks, which
 * allocate and free in the same order.
 */
void lsi_shared_choose_id(ls_group *group);

/* Maps the range and adds it to the list. */
ls_status lsi_shared_attach(ls_group *group, uint64_t offset,
                            lsi_shared_shape made);

/* Makes the pages of this rank's part be there. */
ls_status lsi_shared_reserve(const ls_group *group, const lsi_shared *shared);

/* Takes one off the list, and leaves it mapped. */
void lsi_shared_disown(ls_group *group, lsi_shared *shared);

/* Unmaps one that nobody is going to use, and takes it off the list. */
void lsi_shared_detach(ls_group *group, lsi_shared *shared);

/* The same for one that others may still be using. */
void lsi_shared_let_go(ls_group *group, lsi_shared *shared);

#endif

/*
 * Shared buffers: finding them again by address, and by rank.
 */
#ifndef LS_COMM_SHARED_H
#define LS_COMM_SHARED_H

#include "comm/state.h"

/*
 * A word by which other ranks find the same bytes: they pass it to resolve
 * with the rank that made it. 0 if others cannot see `data`.
 */
uint64_t lsi_shared_token(const ls_group *group, const void *data);
void *lsi_shared_resolve(const ls_group *group, uint64_t token, int rank);

/* The same place in the part of this node's first rank. */
void *lsi_shared_first_here(const ls_group *group, const void *data);

/*
 * As ls_shared_alloc, but nothing is asked for or reserved: pages take memory
 * when they are touched, and only those. For buffers of which most may never
 * be, such as parameters that are in the first rank's part alone.
 */
ls_status lsi_shared_alloc_sparse(ls_group *group, size_t bytes, void **data);

/*
 * Copies bytes of a buffer from ls_shared_alloc to the same place of all other
 * ranks' parts. They are seen after the next collective, and until then nobody
 * else may use them. Local.
 */
void lsi_shared_push(const ls_group *group, const void *data, size_t bytes);

/*
 * Gives the pages of this rank's part back: they read as zero then, and whole
 * ones take no memory. Nobody else may use them at the time. Local.
 */
void lsi_shared_discard(const ls_group *group, const void *data, size_t bytes);

/* Frees what the user has left behind; who is no member just unmaps it. */
void lsi_shared_forget(ls_group *group, bool is_member);

#endif

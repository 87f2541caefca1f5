/*
 * The geometry of a collective: which bytes belong to which rank, and which of
 * them other ranks can reach.
 */
#ifndef LS_COMM_CORE_PATHS_H
#define LS_COMM_CORE_PATHS_H

#include "base/partition.h"
#include "comm/schedule/pull.h"
#include "comm/state/state.h"

lsi_place lsi_place_of(const lsi_collective *op);

/*
 * Bytes of this rank's send buffer that any rank takes; the most of all ranks.
 */
size_t lsi_sent(const lsi_collective *op);
size_t lsi_most_sent(const lsi_collective *op);

/* The elements of the vector that `rank` reduces, or has in an all-gather. */
lsi_range lsi_block_of(const lsi_collective *op, int rank);

/* Whether `rank` has a receive buffer. */
bool lsi_collective_receives(const lsi_collective *op, int rank);

/* Whether arriving data overwrites data that is still to be sent. */
bool lsi_exchanges_in_place(const lsi_collective *op);

/* Whether `rank` receives the reduction of `owner`'s block. */
bool lsi_delivers_to(const lsi_collective *op, int owner, int rank);

/* The byte of the receive buffer at which element `begin` of a block goes. */
size_t lsi_delivery_offset(const lsi_collective *op, size_t begin);

/*
 * Fills in this rank's offer. If only the receive buffer of a reduction is
 * shared, the data is copied there first, and the reduction is in place.
 */
void lsi_make_offer(lsi_collective *op, lsi_offer *offer);

/* Whether no cache will keep the result of a reduction until it is read. */
bool lsi_goes_past_caches(const lsi_collective *op);

/* Copies what this rank sends into its cell. */
void lsi_pack(const lsi_collective *op);

/* Addresses in this process of another rank's (or one's own) buffers. */
const unsigned char *lsi_seen_send(const lsi_collective *op, int rank);
unsigned char *lsi_seen_recv(const lsi_collective *op, int rank);

/*
 * Counts the bytes that leave this rank when each block is reduced by one rank:
 * its data for other ranks' blocks, and its result once for each receiver.
 */
void lsi_count_reduced(const lsi_collective *op);

/* dst = reduction of srcs, with LS_REDUCE_AVG turned into a sum and a factor.
 */
void lsi_reduce_into(const lsi_collective *op, void *dst,
                     const void *const *srcs, int n_srcs, size_t elements);

#endif

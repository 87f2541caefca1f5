/*
 * The all-gather of ranks that share only a store. Rank 0 collects the values
 * of all ranks and stores them as one, so that each call takes three values per
 * rank.
 */
#ifndef LS_COMM_BOOTSTRAP_STORE_GATHER_H
#define LS_COMM_BOOTSTRAP_STORE_GATHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "comm/rendezvous/store.h"

enum { LSI_STORE_GATHER_NAME = 128 };

typedef struct lsi_store_gather {
    const ls_store *store;
    char job[LSI_STORE_GATHER_NAME]; /* prefix of all keys; unique to the job */
    int rank, size;
    uint64_t calls; /* number of calls so far, part of their keys */
    /* State of a meeting of several calls; zeros before the first. */
    uint64_t owner; /* a number that no other rank chooses */
    struct lsi_store_gather_life *life; /* of this rank, and of the others */
} lsi_store_gather;

/*
 * recv[r * bytes ...] = the bytes that rank r sends. Collective. LS_ERR_TIMEOUT
 * if not all ranks have come within `seconds` (0: no limit), with a message
 * that names the missing ones. LS_ERR_MISMATCH if ranks have different numbers
 * of ranks, or two processes have the same rank. LS_ERR_PEER_DEAD if a rank has
 * come and died since. In the first call of a meeting, rank 0 detects this for
 * ranks in its place, and the others for rank 0. Later, every rank that waits
 * detects it for all ranks in its place.
 */
ls_status lsi_store_gather_all(lsi_store_gather *gather, const void *send,
                               size_t bytes, void *recv, double seconds);

/* Whether a rank of this place has died, or given up, since the first call. */
bool lsi_store_gather_has_died(const lsi_store_gather *gather, int rank);

/*
 * The meeting is over, or given up: drops the name that shows that this rank
 * lives.
 */
void lsi_store_gather_end(lsi_store_gather *gather);

#endif

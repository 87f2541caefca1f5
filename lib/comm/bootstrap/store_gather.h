/*
 * The all-gather of ranks that share nothing but a store. Rank 0 collects what
 * all have left there and leaves it again as one, so that each call takes three
 * values a rank.
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
    char job[LSI_STORE_GATHER_NAME]; /* before all keys; of no other job */
    int rank, size;
    uint64_t calls; /* so far: each has keys of its own */
    /* Of a meeting, which consists of several calls; zeros before the first. */
    uint64_t owner; /* a number that no other rank chooses */
    struct lsi_store_gather_life *life; /* of this rank, and of the others */
} lsi_store_gather;

/*
 * recv[r * bytes ...] = what rank r sends. Collective. LS_ERR_TIMEOUT if not
 * all have come within so many seconds (0: no limit), and a sentence with those
 * who are missed; LS_ERR_MISMATCH if ranks have been told of different numbers
 * of ranks, or two of the same; LS_ERR_PEER_DEAD if one that has come, to the
 * place where the one that waits for all is, has died since; after the first
 * call of a meeting, to the place of any that waits.
 */
ls_status lsi_store_gather_all(lsi_store_gather *gather, const void *send,
                               size_t bytes, void *recv, double seconds);

/* Whether a rank of this place has died, or given up, since the first call. */
bool lsi_store_gather_has_died(const lsi_store_gather *gather, int rank);

/* The meeting is over, or given up: nobody need see that this rank lives. */
void lsi_store_gather_end(lsi_store_gather *gather);

#endif

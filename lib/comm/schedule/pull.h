/*
 * The operations that only move data: which rank takes which bytes from which.
 * Pure: four integers in, offsets out. Sizes are in bytes.
 */
#ifndef LS_COMM_SCHEDULE_PULL_H
#define LS_COMM_SCHEDULE_PULL_H

#include <stdbool.h>
#include <stddef.h>

#include "comm/state/call.h"
#include "comm/state/cut.h"
#include "comm/state/state.h"

typedef struct lsi_place {
    lsi_operation operation;
    size_t block; /* bytes of count elements */
    int size, root;
    lsi_cut cut; /* gather_shards, in bytes */
    /*
     * The counts if they differ among ranks, in elements of `item` bytes.
     * `self` is the rank that has this table.
     */
    const lsi_block_table *counted;
    size_t item;
    int self;
} lsi_place;

typedef struct lsi_pull {
    size_t from; /* offset in the peer's send buffer */
    size_t to;   /* offset in one's own receive buffer */
    size_t bytes;
} lsi_pull;

/* The most bytes that a rank takes from another. */
size_t lsi_pull_most(const lsi_place *place);

/* The bytes that `rank` takes from `peer`, which may be itself. */
lsi_pull lsi_pull_of(const lsi_place *place, int rank, int peer);

/* Bytes at the start of `rank`'s send buffer that any rank takes. */
size_t lsi_contribution(const lsi_place *place, int rank);

/* The most that any rank contributes. */
size_t lsi_contribution_most(const lsi_place *place);

/* 1 if all readers take the same bytes from a rank, else their number. */
int lsi_pull_readers(const lsi_place *place);

/* Whether every rank takes all that each rank sends. */
bool lsi_pull_serves_all(const lsi_place *place);

#endif

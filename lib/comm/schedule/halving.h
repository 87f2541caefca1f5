/*
 * Recursive halving and doubling for any number of ranks. Pure.
 *
 * The largest power of two P that fits takes part. The ranks from P on are
 * folded in first: rank P + r gives its data to rank r, and gets the result at
 * the end. In round k = 0..rounds-1 the distance is P/2, P/4, ..., 1. So data
 * are added up in the order of the fold in fold.def.
 *
 * In halving, partners have the same blocks, and each keeps the half in which
 * its own block lies. Doubling goes the same way back.
 */
#ifndef LS_COMM_SCHEDULE_HALVING_H
#define LS_COMM_SCHEDULE_HALVING_H

#include <stdbool.h>

typedef struct lsi_halving {
    int size;   /* ranks */
    int active; /* the largest power of two <= size */
    int rounds; /* log2(active) */
} lsi_halving;

static inline lsi_halving lsi_halving_of(int size)
{
    lsi_halving h = {size, 1, 0};
    while (h.active * 2 <= size) {
        h.active *= 2;
        h.rounds++;
    }
    return h;
}

/* A rank that gives its data away and waits for the result. */
static inline bool lsi_halving_folded(lsi_halving h, int rank)
{
    return rank >= h.active;
}

/* The rank that folds, or is folded, with `rank`; -1 for the others. */
static inline int lsi_halving_fold_peer(lsi_halving h, int rank)
{
    if (rank >= h.active)
        return rank - h.active;
    return rank + h.active < h.size ? rank + h.active : -1;
}

/* How far apart partners are in round k. */
static inline int lsi_halving_distance(lsi_halving h, int k)
{
    return h.active >> (k + 1);
}

/* The first of the `distance` blocks that `rank` keeps in a round. */
static inline int lsi_halving_keeps(int rank, int distance)
{
    return rank & ~(distance - 1);
}

#endif

/*
 * Recursive halving and doubling for any number of ranks. Pure.
 *
 * The largest power of two that fits takes part. The ranks beyond it are folded
 * in first: of the first 2 * rest ranks each even one gives its data to the odd
 * one after it, and gets the result at the end.
 *
 * In halving round k = 0..rounds-1 the distance is P/2, P/4, ..., 1: partners
 * have the same blocks, and each keeps the half in which its own block lies.
 * Doubling goes the same way back.
 */
#ifndef LS_COMM_SCHEDULE_HALVING_H
#define LS_COMM_SCHEDULE_HALVING_H

#include <stdbool.h>

typedef struct lsi_halving {
    int size;   /* ranks */
    int active; /* the largest power of two <= size */
    int rest;   /* size - active */
    int rounds; /* log2(active) */
} lsi_halving;

static inline lsi_halving lsi_halving_of(int size)
{
    lsi_halving h = {size, 1, 0, 0};
    while (h.active * 2 <= size) {
        h.active *= 2;
        h.rounds++;
    }
    h.rest = size - h.active;
    return h;
}

/* A rank that gives its data away and waits for the result. */
static inline bool lsi_halving_folded(lsi_halving h, int rank)
{
    return rank < 2 * h.rest && rank % 2 == 0;
}

/* The rank that folds, or is folded, with `rank`; -1 for the others. */
static inline int lsi_halving_fold_peer(lsi_halving h, int rank)
{
    return rank < 2 * h.rest ? rank ^ 1 : -1;
}

/* Numbers 0..active-1 for the ranks that take part, and back. */
static inline int lsi_halving_index(lsi_halving h, int rank)
{
    return rank < 2 * h.rest ? rank / 2 : rank - h.rest;
}

static inline int lsi_halving_rank(lsi_halving h, int index)
{
    return index < h.rest ? 2 * index + 1 : index + h.rest;
}

/* How far apart partners are in halving round k. */
static inline int lsi_halving_distance(lsi_halving h, int k)
{
    return h.active >> (k + 1);
}

/* The first of the `distance` blocks that `index` keeps in a round. */
static inline int lsi_halving_keeps(int index, int distance)
{
    return index & ~(distance - 1);
}

#endif

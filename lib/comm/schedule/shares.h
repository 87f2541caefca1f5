/*
 * Who carries what between nodes, if every element of a vector has one owner
 * among all ranks: in a reduce-scatter, and the other way in an all-gather.
 * Pure.
 *
 * Ranks of one node that follow each other are a run, and what they own is a
 * part of the vector. On every other node all ranks carry it, each an equal
 * share of it, so that every byte crosses once to a node and all ranks
 * are busy. What two ranks of different nodes exchange is what the one
 * carries and the other owns.
 *
 * A run goes in windows. Each is a part of every carrier's share, so that all
 * work on it, and a rank has as few peers as it would have without windows.
 */
#ifndef LS_COMM_SCHEDULE_SHARES_H
#define LS_COMM_SCHEDULE_SHARES_H

#include <stdbool.h>

#include "comm/state/cut.h"

/* The ranks of a node, ascending. */
typedef struct lsi_node_ranks {
    const int *rank;
    int ranks;
} lsi_node_ranks;

/* Rank r of `ranks` owns part r of a vector of `count`. */
typedef struct lsi_owners {
    lsi_cut cut;
    size_t count;
    int ranks;
    size_t item; /* bytes of an element */
} lsi_owners;

/* A window of what a run owns, as the ranks of a node share it. */
typedef struct lsi_shares {
    int first, owners;       /* the run */
    lsi_range elements;      /* that it owns, in all windows */
    lsi_cut cut;             /* of these, among the carriers; with the window */
    lsi_node_ranks carriers; /* none: there is no such window */
} lsi_shares;

/* How a run's n elements are cut among so many ranks of another node. */
static inline lsi_cut lsi_even_cut(size_t n, int ranks)
{
    const size_t parts = (size_t)ranks;
    return (lsi_cut){.shard = (n + parts - 1) / parts};
}

/*
 * Window number `index` of what the ranks of node `owners` own, as those of
 * node `carriers` share it: equally, or as they own it if they are the same.
 * False if there are not as many.
 */
bool lsi_shares_window(const lsi_owners *all, lsi_node_ranks owners,
                       lsi_node_ranks carriers, size_t index, lsi_shares *out);

/* The most elements of a window of any run, for up to so many carriers. */
size_t lsi_shares_most(const lsi_owners *all, int carriers);

/* What carrier number `index` carries of the window: elements of the vector. */
lsi_range lsi_shares_part(const lsi_shares *s, int index);

/*
 * Up to which element of what a rank owns everything lies in this window and
 * those before it.
 */
size_t lsi_shares_upto(const lsi_shares *s, lsi_range owned);

/*
 * In which order nodes are served, and served by: in turn t = 0..nodes-2 each
 * sends to the one that is t + 1 after it.
 */
static inline int lsi_turn_to(int nodes, int node, int turn)
{
    return (node + turn + 1) % nodes;
}

static inline int lsi_turn_from(int nodes, int node, int turn)
{
    return (node + nodes - turn - 1) % nodes;
}

#endif

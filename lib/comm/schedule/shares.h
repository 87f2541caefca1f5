/*
 * The part of a vector that each rank carries between nodes, if every element
 * has one owner among all ranks. Used in a reduce-scatter, and in the opposite
 * direction in an all-gather. Pure.
 *
 * Consecutive ranks of one node are a run, and they own a part of the vector.
 * On every other node all ranks carry that part, an equal share each. So every
 * byte crosses once to a node and all ranks are busy. Two ranks of different
 * nodes exchange the elements that one of them carries and the other owns.
 *
 * A run goes in windows. Their elements do not depend on the carriers, so every
 * other node sends the same window at the same time. Memory for some windows
 * suffices, whatever the length of the vector. A short run is one window. A
 * window of a longer run is a piece of one owner's part, and the owners take
 * turns. It is a piece of every part if all nodes have equal numbers of ranks
 * and all ranks of the run own equal parts. A rank then carries the elements of
 * its counterpart, and has one peer on each node.
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
    size_t most; /* elements of a window, at most (lsi_shares_most) */
    bool alike;  /* all nodes have equal numbers of ranks */
} lsi_owners;

/* A window of a run's part, as the ranks of a node share it. */
typedef struct lsi_shares {
    int first, owners;       /* the run */
    lsi_range elements;      /* the window; or the run, and `cut` has it */
    lsi_cut cut;             /* of `elements` among the carriers */
    lsi_node_ranks carriers; /* none: the window is empty */
} lsi_shares;

/* The cut of a run's n elements among `ranks` ranks of another node. */
static inline lsi_cut lsi_even_cut(size_t n, int ranks)
{
    const size_t parts = (size_t)ranks;
    return (lsi_cut){.shard = (n + parts - 1) / parts};
}

/*
 * Window number `index` of the parts that the ranks of node `owners` own. The
 * ranks of node `carriers` share it equally or, if the nodes are the same, as
 * they own it. False if the index is past the last window. A window before the
 * last may be empty: no carriers.
 */
bool lsi_shares_window(const lsi_owners *all, lsi_node_ranks owners,
                       lsi_node_ranks carriers, size_t index, lsi_shares *out);

/*
 * The most elements of a window, for up to `carriers` carriers: `most`, rounded
 * up to whole cache lines of each.
 */
size_t lsi_shares_most(const lsi_owners *all, int carriers);

/* The elements of the vector that carrier `index` carries of the window. */
lsi_range lsi_shares_part(const lsi_shares *s, int index);

/*
 * The order in which a node serves the others and is served: in turn t =
 * 0..nodes-2 each sends to the node that is t + 1 after it.
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

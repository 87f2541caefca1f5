/*
 * Who carries what between nodes, if every element of a vector has one owner
 * among all ranks: in a reduce-scatter, and the other way in an all-gather.
 * Pure.
 *
 * Ranks of one node that follow each other are a run, and what they own is a
 * part of the vector. On every other node all ranks carry it, each an equal
 * share of it, so that every byte crosses once to a node and all ranks have
 * their hands full. What two ranks of different nodes exchange is what the one
 * carries and the other owns.
 */
#ifndef LS_COMM_SCHEDULE_SHARES_H
#define LS_COMM_SCHEDULE_SHARES_H

#include "comm/state/cut.h"

/* How many of n ascending ranks of a node, from the first, make a run. */
static inline int lsi_run_length(const int *ranks, int n)
{
    int length = 1;
    while (length < n && ranks[length] == ranks[0] + length)
        length++;
    return length;
}

/* How a run's n elements are cut among the `ranks` of another node. */
static inline lsi_cut lsi_shares(size_t n, int ranks)
{
    const size_t parts = (size_t)ranks;
    return (lsi_cut){.shard = (n + parts - 1) / parts};
}

/* What rank `index` of another node's `ranks` carries of what one rank owns. */
static inline lsi_range lsi_carried(lsi_range run, int ranks, int index,
                                    lsi_range owned)
{
    const size_t n = lsi_range_size(run);
    const lsi_cut shares = lsi_shares(n, ranks);
    const lsi_range share = lsi_cut_part(&shares, n, ranks, index);
    return lsi_range_common(
        (lsi_range){run.begin + share.begin, run.begin + share.end}, owned);
}

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

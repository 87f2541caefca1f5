/*
 * The exchange between nodes: which rank sends which part to which. Pure.
 *
 * The vector that a node has reduced is cut into rails: as many as the node
 * with the most ranks has ranks. The ranks of a node carry the rails between
 * them, in order, so that each rail has one carrier on every node and no rank
 * is idle. The carriers of a rail then exchange it:
 *
 *   few nodes    directly, part p of the rail with node p: all send, p adds up,
 *                p sends the sum to all. Two steps.
 *   many nodes   by recursive halving and doubling (halving.h): a step for each
 *                power of two in both directions, and with a number of nodes
 *                that is none, one more at either end.
 *
 * Both add in the order of the fold in fold.def, so they give the same bits.
 *
 * Operations with a root use a subset of these messages. A reduce adds up the
 * same way, but the sums move towards the root's node only. A broadcast is the
 * way back: the parts move away from the root, and then to all nodes that lack
 * them.
 */
#ifndef LS_COMM_SCHEDULE_NODES_H
#define LS_COMM_SCHEDULE_NODES_H

#include <stdbool.h>

#include "base/partition.h"

enum { LSI_FEW_NODES = 8 }; /* that exchange directly */

/* ---- rails --------------------------------------------------------------- */

/* How many there are, from the number of ranks on each node. */
int lsi_rails_between(const int *ranks, int nodes);

/* The rails that rank `index` of a node's `ranks` carries; never none. */
lsi_range lsi_rails_carried(int rails, int ranks, int index);

/* Which of a node's `ranks` carries a rail. */
int lsi_rail_carrier(int rails, int ranks, int rail);

/* ---- the exchange of a rail ---------------------------------------------- */

/* One message: the node at its other end, and which parts it holds. */
typedef struct lsi_leg {
    int node;
    lsi_range parts;
} lsi_leg;

typedef struct lsi_leap {
    int outs, ins;
    lsi_leg out[LSI_FEW_NODES], in[LSI_FEW_NODES]; /* ins by number of node */
    bool adds; /* what comes in is folded with one's own, by number of node */
} lsi_leap;

typedef struct lsi_rooted {
    int nodes, root; /* no matter which if all nodes get the sum */
} lsi_rooted;

/* The number of parts into which a rail is cut. */
int lsi_nodes_parts(int nodes);

/* The number of steps, and the index of the first that gathers. */
int lsi_nodes_steps(int nodes);
int lsi_nodes_first_gather(int nodes);

/* The messages of `node` in a step 0..steps-1. */
void lsi_nodes_step(lsi_rooted shape, int node, int step, lsi_leap *out);

/* As lsi_nodes_step, with the sum or the data for or from node `root` only. */
void lsi_nodes_reduce_step(lsi_rooted shape, int node, int step, lsi_leap *out);
void lsi_nodes_broadcast_step(lsi_rooted shape, int node, int step,
                              lsi_leap *out);

/* One of these three. */
typedef void lsi_leap_fn(lsi_rooted shape, int node, int step, lsi_leap *out);

#endif

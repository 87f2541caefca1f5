/*
 * Groups that span nodes, played by threads of this process: each node has
 * separate memory, and between nodes there is a wire that only copies.
 */
#ifndef LS_TEST_COMM_NODES_H
#define LS_TEST_COMM_NODES_H

#include "comm/coll/algorithm.h"
#include "ranks.h"

/* Runs fn on every rank of a group with ranks[k] ranks on node k, in order. */
void run_nodes(const int *ranks, int nodes, rank_fn *fn, void *argument);

/* An algorithm that always works for an operation in this group. */
const char *fallback_of(const ls_group *group, lsi_operation operation);

/* Messages that one rank has sent to another and that were not received. */
typedef struct held {
    size_t messages, bytes;
} held;
held wire_holds(int from, int to);

/* Bytes of data that this rank has sent to other nodes so far. */
size_t sent_by_wire(void);

/* Whether the last that a rank told other nodes is that it waits for one. */
bool has_told_whom(int rank);

/*
 * Holds back what is sent to a rank about one of LSI_TAG_..., until -1 is given
 * as the rank, or run_nodes ends.
 */
void hold_back(int to, int about);

/* Cuts the wire: from now on nothing arrives. Mended by the next run_nodes. */
void cut_wire(void);

#endif

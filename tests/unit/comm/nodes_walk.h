/*
 * Walks through the schedules between nodes that count what each rank would
 * send, for shapes of up to 4,096 ranks.
 */
#ifndef LS_TEST_COMM_NODES_WALK_H
#define LS_TEST_COMM_NODES_WALK_H

#include "comm/schedule/nodes.h"

enum { MOST = 4096 };

typedef struct shape {
    int nodes, total, rails;
    int ranks[MOST], first[MOST]; /* of each node */
} shape;

typedef struct cost {
    size_t messages, sent, received;
    int connections;
} cost;

/* What is walked through, and what that cost each rank. */
extern shape s;
extern cost costs[MOST];

/* Once nodes and ranks are set. */
void finish_shape(void);

/* An all-reduce of so many bytes; and what has a root. */
void walk(size_t bytes);
void walk_rooted(size_t bytes, int root, lsi_leap_fn *find);

/* A reduce-scatter, or all-gather, of blocks of so many bytes. */
void walk_blocks(size_t block, bool gathers);

#endif

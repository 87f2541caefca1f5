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

/* The shape that is walked through, and its cost for each rank. */
extern shape s;
extern cost costs[MOST];

/* Once nodes and ranks are set. */
void finish_shape(void);

/* An all-reduce of that number of bytes; and operations with a root. */
void walk(size_t bytes);
void walk_rooted(size_t bytes, int root, lsi_leap_fn *find);

/* A reduce-scatter, or all-gather, of blocks of that number of bytes. */
void walk_blocks(size_t block, bool gathers);

#endif

/*
 * Times of collectives between nodes. The schedules of groups that span nodes
 * (comm/schedule/nodes.h, the pipeline of comm/coll/nodes) are simulated with a
 * link's latency and bandwidth. Each node has one link, which sends and
 * receives at once.
 */
#ifndef LS_PLAN_CROSSING_H
#define LS_PLAN_CROSSING_H

#include <stdint.h>

typedef struct lsi_plan_link {
    double bytes; /* bytes a second in each direction */
    double latency;
} lsi_plan_link;

typedef enum lsi_plan_move {
    LSI_PLAN_ALL_REDUCE,
    LSI_PLAN_REDUCE_SCATTER,
    LSI_PLAN_ALL_GATHER,
    LSI_PLAN_BROADCAST,
    LSI_PLAN_MOVES
} lsi_plan_move;

/* The most steps of a schedule. */
enum { LSI_PLAN_STEPS = 64 };

/* Load of the busiest node's link in each step of a segment. */
typedef struct lsi_plan_steps {
    int n;
    double share[LSI_PLAN_STEPS]; /* shares of the segment's bytes */
} lsi_plan_steps;

/* The rails' schedule of an all-reduce between `nodes` nodes. */
lsi_plan_steps lsi_plan_steps_of(int nodes);

/* Cost of a move of `bytes` bytes for a rank. */
typedef struct lsi_plan_cost {
    double seconds; /* seconds from start to end without other work */
    double busy;    /* seconds of it in which the rank itself works */
    double sent;    /* bytes that leave the node */
} lsi_plan_cost;

typedef struct lsi_plan_place {
    int64_t nodes, here; /* number of nodes, of ranks on each node */
    lsi_plan_link link;
    double meeting; /* seconds for the ranks of a node to meet */
    double memory;  /* bytes a second that a rank reads or writes */
    double page;    /* seconds to give back a page of shared memory, write it
                       again, and read it on another rank */
    lsi_plan_steps rails; /* from lsi_plan_steps_of, with several nodes */
} lsi_plan_place;

lsi_plan_cost lsi_plan_move_cost(const lsi_plan_place *place,
                                 lsi_plan_move move, double bytes);

#endif

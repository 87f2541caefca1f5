/*
 * How long what a collective moves between nodes takes: the schedules of groups
 * that span nodes (comm/schedule/nodes.h, the pipeline of comm/coll/nodes),
 * played through with a link's latency and bandwidth. Each node has one link,
 * which sends and receives at once.
 */
#ifndef LS_PLAN_CROSSING_H
#define LS_PLAN_CROSSING_H

#include <stdint.h>

typedef struct lsi_plan_link {
    double bytes; /* a second, in each direction */
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

/* Of a segment: what the busiest node's link carries in each step. */
typedef struct lsi_plan_steps {
    int n;
    double share[LSI_PLAN_STEPS]; /* of the segment's bytes */
} lsi_plan_steps;

/* The rails' schedule of an all-reduce between so many nodes. */
lsi_plan_steps lsi_plan_steps_of(int nodes);

/* What a move of so many bytes costs a rank. */
typedef struct lsi_plan_cost {
    double seconds; /* from its start to its end, if nothing else goes on */
    double busy;    /* of which the rank itself works */
    double sent;    /* bytes that leave the node */
} lsi_plan_cost;

typedef struct lsi_plan_place {
    int64_t nodes, here; /* and ranks of each node */
    lsi_plan_link link;
    double meeting;       /* seconds: the ranks of a node meet */
    double memory;        /* bytes a second that a rank reads or writes */
    double page;          /* seconds: a page of shared memory is given back,
                             written again, and read by another rank */
    lsi_plan_steps rails; /* of lsi_plan_steps_of, if there are nodes */
} lsi_plan_place;

lsi_plan_cost lsi_plan_move_cost(const lsi_plan_place *place,
                                 lsi_plan_move move, double bytes);

#endif

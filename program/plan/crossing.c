#include "plan/crossing.h"

#include <math.h>

#include "comm/schedule/nodes.h"

/* As in comm/coll/nodes and the selection table. */
enum {
    IN_CELLS = 4 << 10, /* most bytes that travel with the arrival */
    SEGMENTS = 4,       /* segments in flight */
    LEAST_SEGMENT = 256 << 10,
    GOOD_SEGMENT = 1 << 20,
    MOST_SEGMENT = 8 << 20,
    PIECE = 60 << 10
};

static double most_of(const lsi_leg *legs, int n)
{
    double parts = 0;
    for (int i = 0; i < n; i++)
        parts += (double)lsi_range_size(legs[i].parts);
    return parts;
}

lsi_plan_steps lsi_plan_steps_of(int nodes)
{
    const lsi_rooted shape = {.nodes = nodes};
    const double parts = lsi_nodes_parts(nodes);
    lsi_plan_steps steps = {.n = lsi_nodes_steps(nodes)};
    for (int step = 0; step < steps.n; step++) {
        for (int node = 0; node < nodes; node++) {
            lsi_leap leap;
            lsi_nodes_step(shape, node, step, &leap);
            const double out = most_of(leap.out, leap.outs);
            const double in = most_of(leap.in, leap.ins);
            steps.share[step] = fmax(steps.share[step], fmax(out, in) / parts);
        }
    }
    return steps;
}

/* Share of the bytes in one turn: owned parts go to, or come from, one node. */
static double turn_share(int64_t nodes)
{
    return 1 / (double)nodes;
}

/* ---- inside a node ------------------------------------------------------- */

/* Bytes that a rank reads and writes, for each byte of the vector. */
static double touched(lsi_plan_move move, double here)
{
    switch (move) {
    case LSI_PLAN_ALL_REDUCE: /* all vectors' share, to all vectors */
        return 2;
    case LSI_PLAN_REDUCE_SCATTER:
        return 1 + 1 / here;
    case LSI_PLAN_ALL_GATHER:
        return (here - 1) / here;
    default: /* from the root's memory to the rank's */
        return 2;
    }
}

static double node_seconds(const lsi_plan_place *p, lsi_plan_move move,
                           double bytes)
{
    if (p->here < 2)
        return 0;
    return touched(move, (double)p->here) * bytes / p->memory;
}

/* ---- between nodes ------------------------------------------------------- */

static double segment_bytes(const lsi_plan_place *p, double bytes)
{
    const double parts =
        (double)p->here * lsi_nodes_parts((int)p->nodes) * PIECE;
    const double most = fmin(fmax(parts, GOOD_SEGMENT), MOST_SEGMENT);
    const double good = fmin(fmax(bytes / SEGMENTS, LEAST_SEGMENT), most);
    return fmin(good, bytes);
}

typedef struct pipeline {
    double ends[SEGMENTS]; /* times at which the segments in flight end */
    double cpu, link;      /* times from which the CPU and the link are free */
} pipeline;

/* The next segment enters, crosses in steps and leaves. */
static void pass(pipeline *now, int64_t i, const lsi_plan_link *link,
                 const lsi_plan_steps *steps, double bytes)
{
    const double begin = fmax(now->cpu, now->ends[i % SEGMENTS]);
    double at = begin;
    for (int step = 0; step < steps->n; step++) {
        const double sends = steps->share[step] * bytes / link->bytes;
        now->link = fmax(now->link, at) + sends;
        at = now->link + link->latency;
    }
    now->ends[i % SEGMENTS] = at;
}

/*
 * While other segments are in flight, the ranks of a node compute: sums before
 * the node sends, copies after it has received.
 */
static double cross_rails(const lsi_plan_place *p, double bytes, double *sent,
                          bool one_way)
{
    lsi_plan_steps steps = p->rails;
    const double segment = segment_bytes(p, bytes);
    const int64_t n = (int64_t)ceil(bytes / segment);
    const double work = node_seconds(p, LSI_PLAN_REDUCE_SCATTER, segment) +
                        node_seconds(p, LSI_PLAN_ALL_GATHER, segment);
    pipeline now = {.cpu = 0};
    if (one_way)
        for (int i = 0; i < steps.n; i++)
            steps.share[i] /= 2;
    double end = 0;
    for (int64_t i = 0; i < n; i++) {
        now.cpu += work / 2;
        pass(&now, i, &p->link, &steps, segment);
        end = fmax(now.cpu, now.ends[i % SEGMENTS]);
        now.cpu += work / 2;
    }
    for (int i = 0; i < steps.n; i++)
        *sent += steps.share[i] * bytes;
    return end + work / 2;
}

static double cross_owners(const lsi_plan_place *p, lsi_plan_move move,
                           double bytes, double *sent)
{
    const lsi_plan_steps one = {.n = 1, .share = {1}};
    const double turn = turn_share(p->nodes) * bytes;
    const double windows = ceil(turn / MOST_SEGMENT);
    const double work = node_seconds(p, move, turn / windows);
    const int64_t n = (p->nodes - 1) * (int64_t)windows;
    pipeline now = {.cpu = 0};
    double end = 0;
    for (int64_t i = 0; i < n; i++) {
        now.cpu += work;
        pass(&now, i, &p->link, &one, turn / windows);
        end = fmax(now.cpu, now.ends[i % SEGMENTS]);
    }
    *sent = turn * (double)(p->nodes - 1);
    return end + work;
}

/* Every rank learns of every other in log2 of the nodes rounds. */
static double arrive(const lsi_plan_place *p, double bytes)
{
    const double rounds = ceil(log2((double)p->nodes));
    const double all = bytes * (double)(p->here * (p->nodes - 1));
    return rounds * p->link.latency + all / p->link.bytes;
}

lsi_plan_cost lsi_plan_move_cost(const lsi_plan_place *p, lsi_plan_move move,
                                 double bytes)
{
    lsi_plan_cost cost = {.busy = node_seconds(p, move, bytes)};
    if (p->here > 1)
        cost.busy += p->meeting;
    cost.seconds = cost.busy;
    if (p->nodes < 2)
        return cost;
    if (bytes <= IN_CELLS) {
        cost.seconds += arrive(p, bytes);
        cost.sent = bytes * (double)p->here * (double)(p->nodes - 1);
        return cost;
    }
    const bool rails =
        move == LSI_PLAN_ALL_REDUCE || move == LSI_PLAN_BROADCAST;
    const double crossing =
        rails ? cross_rails(p, bytes, &cost.sent, move == LSI_PLAN_BROADCAST)
              : cross_owners(p, move, bytes, &cost.sent);
    cost.seconds = arrive(p, 0) + p->meeting + crossing;
    return cost;
}

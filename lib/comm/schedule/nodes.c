#include "comm/schedule/nodes.h"

#include <assert.h>

#include "comm/schedule/halving.h"

/* ---- rails --------------------------------------------------------------- */

int lsi_rails_between(const int *ranks, int nodes)
{
    int most = 1;
    for (int k = 0; k < nodes; k++)
        most = ranks[k] > most ? ranks[k] : most;
    return most;
}

lsi_range lsi_rails_carried(int rails, int ranks, int index)
{
    return lsi_partition((size_t)rails, (size_t)ranks, (size_t)index);
}

int lsi_rail_carrier(int rails, int ranks, int rail)
{
    int index = 0;
    assert(rail >= 0 && rail < rails);
    while (lsi_rails_carried(rails, ranks, index).end <= (size_t)rail)
        index++;
    return index;
}

/* ---- the exchange of a rail ---------------------------------------------- */

static lsi_range one(int part)
{
    return (lsi_range){(size_t)part, (size_t)part + 1};
}

static lsi_range some(int first, int count)
{
    return (lsi_range){(size_t)first, (size_t)(first + count)};
}

static void send(lsi_leap *leap, int node, lsi_range parts)
{
    assert(leap->outs < (int)(sizeof(leap->out) / sizeof(leap->out[0])));
    leap->out[leap->outs++] = (lsi_leg){node, parts};
}

static void receive(lsi_leap *leap, int node, lsi_range parts)
{
    assert(leap->ins < (int)(sizeof(leap->in) / sizeof(leap->in[0])));
    leap->in[leap->ins++] = (lsi_leg){node, parts};
}

/* Sends begin with the next node, so that not all send to the same one. */
static void direct(int nodes, int node, int step, lsi_leap *leap)
{
    leap->adds = step == 0;
    for (int i = 1; i < nodes; i++) {
        const int peer = (node + i) % nodes;
        send(leap, peer, one(step == 0 ? peer : node));
    }
    for (int peer = 0; peer < nodes; peer++)
        if (peer != node)
            receive(leap, peer, one(step == 0 ? node : peer));
}

/* Nodes beyond the largest power of two give all, and get all at the end. */
static void fold(lsi_halving h, int node, bool back, lsi_leap *leap)
{
    const int peer = lsi_halving_fold_peer(h, node);
    const lsi_range all = some(0, h.active);
    leap->adds = !back;
    if (peer < 0)
        return;
    if (lsi_halving_folded(h, node) != back)
        send(leap, peer, all);
    else
        receive(leap, peer, all);
}

static void halve(lsi_halving h, int node, int round, lsi_leap *leap)
{
    const int distance = lsi_halving_distance(h, round);
    const int peer = node ^ distance;
    leap->adds = true;
    send(leap, peer, some(lsi_halving_keeps(peer, distance), distance));
    receive(leap, peer, some(lsi_halving_keeps(node, distance), distance));
}

static void twice(lsi_halving h, int node, int round, lsi_leap *leap)
{
    const int distance = lsi_halving_distance(h, round);
    const int peer = node ^ distance;
    send(leap, peer, some(lsi_halving_keeps(node, distance), distance));
    receive(leap, peer, some(lsi_halving_keeps(peer, distance), distance));
}

int lsi_nodes_parts(int nodes)
{
    return nodes <= LSI_FEW_NODES ? nodes : lsi_halving_of(nodes).active;
}

/* The steps in which nodes beyond the power of two come in: 0 or 1. */
static int folds(lsi_halving h)
{
    return h.active != h.size;
}

int lsi_nodes_steps(int nodes)
{
    return 2 * lsi_nodes_first_gather(nodes);
}

int lsi_nodes_first_gather(int nodes)
{
    if (nodes <= LSI_FEW_NODES)
        return nodes > 1;
    const lsi_halving h = lsi_halving_of(nodes);
    return h.rounds + folds(h);
}

void lsi_nodes_step(lsi_rooted shape, int node, int step, lsi_leap *out)
{
    const int nodes = shape.nodes;
    assert(step >= 0 && step < lsi_nodes_steps(nodes));
    *out = (lsi_leap){0};
    if (nodes <= LSI_FEW_NODES) {
        direct(nodes, node, step, out);
        return;
    }
    const lsi_halving h = lsi_halving_of(nodes);
    const int gathers = lsi_nodes_first_gather(nodes);
    const bool back = step >= gathers;
    const int at = (back ? 2 * gathers - 1 - step : step) - folds(h);
    if (at < 0)
        fold(h, node, back, out);
    else if (lsi_halving_folded(h, node))
        return;
    else if (back)
        twice(h, node, at, out);
    else
        halve(h, node, at, out);
}

/* ---- with a root --------------------------------------------------------- */

/* In which direction a message goes: one of a step of lsi_nodes_step. */
typedef struct way {
    int sender, receiver, step;
} way;

/*
 * Halving from the root, a node has data once its number equals the root's in
 * all bits up to that of the distance. On the way back such a node collects.
 */
static bool leads(lsi_rooted shape, int node, int distance)
{
    const lsi_halving h = lsi_halving_of(shape.nodes);
    const int root = shape.root % h.active;
    return ((node ^ root) & (2 * distance - 1)) == 0;
}

/* Whether a message is one with the node beyond the power of two. */
static bool is_fold(lsi_rooted shape, way w)
{
    const int active = lsi_halving_of(shape.nodes).active;
    return w.sender >= active || w.receiver >= active;
}

static int distance_of(way w)
{
    return w.sender ^ w.receiver;
}

/* Sums: all until they are complete, and then what goes to the root. */
static bool reduces_by(lsi_rooted shape, way w)
{
    if (w.step < lsi_nodes_first_gather(shape.nodes))
        return true;
    if (shape.nodes <= LSI_FEW_NODES || is_fold(shape, w))
        return w.receiver == shape.root;
    return leads(shape, w.receiver, distance_of(w));
}

/*
 * First to the nodes that have no data yet, from those that have; then the
 * parts that a node lacks.
 */
static bool broadcasts_by(lsi_rooted shape, way w)
{
    const bool back = w.step >= lsi_nodes_first_gather(shape.nodes);
    if (shape.nodes <= LSI_FEW_NODES || is_fold(shape, w))
        return back ? w.receiver != shape.root : w.sender == shape.root;
    return back ? !leads(shape, w.receiver, distance_of(w))
                : leads(shape, w.sender, distance_of(w));
}

static void keep(lsi_rooted shape, int node, int step, lsi_leap *leap,
                 bool (*kept)(lsi_rooted shape, way w))
{
    const int outs = leap->outs, ins = leap->ins;
    leap->outs = leap->ins = 0;
    for (int i = 0; i < outs; i++)
        if (kept(shape, (way){node, leap->out[i].node, step}))
            leap->out[leap->outs++] = leap->out[i];
    for (int i = 0; i < ins; i++)
        if (kept(shape, (way){leap->in[i].node, node, step}))
            leap->in[leap->ins++] = leap->in[i];
}

void lsi_nodes_reduce_step(lsi_rooted shape, int node, int step, lsi_leap *out)
{
    lsi_nodes_step(shape, node, step, out);
    keep(shape, node, step, out, reduces_by);
}

void lsi_nodes_broadcast_step(lsi_rooted shape, int node, int step,
                              lsi_leap *out)
{
    lsi_nodes_step(shape, node, step, out);
    keep(shape, node, step, out, broadcasts_by);
    out->adds = false;
}

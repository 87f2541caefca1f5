#include "nodes_walk.h"

#include <stdint.h>
#include <string.h>

#include "comm/schedule/shares.h"

shape s;
cost costs[MOST];
static uint64_t meets[MOST][MOST / 64];

void finish_shape(void)
{
    s.total = 0;
    for (int k = 0; k < s.nodes; k++) {
        s.first[k] = s.total;
        s.total += s.ranks[k];
    }
    s.rails = lsi_rails_between(s.ranks, s.nodes);
}

static int carrier(int node, int rail)
{
    /* As lsi_rail_carrier, which test_nodes.c holds to lsi_rails_carried. */
    const size_t rails = (size_t)s.rails, ranks = (size_t)s.ranks[node];
    const size_t small = rails / ranks, large = rails % ranks;
    const size_t l = (size_t)rail, border = large * (small + 1);
    const size_t index =
        l < border ? l / (small + 1) : large + (l - border) / small;
    return s.first[node] + (int)index;
}

/* Of consecutive parts of a rail. */
static size_t bytes_of(size_t rail, int parts, lsi_range range)
{
    const size_t n = (size_t)parts;
    return lsi_partition(rail, n, range.end - 1).end -
           lsi_partition(rail, n, range.begin).begin;
}

static void meet(int a, int b)
{
    if (meets[a][b / 64] >> (b % 64) & 1)
        return;
    meets[a][b / 64] |= (uint64_t)1 << (b % 64);
    costs[a].connections++;
}

/* A node's messages in a step are the same for all rails. */
static void walk_step(const lsi_leap *leap, int node, size_t bytes)
{
    const int parts = lsi_nodes_parts(s.nodes);
    for (int l = 0; l < s.rails; l++) {
        const size_t rail =
            lsi_range_size(lsi_partition(bytes, (size_t)s.rails, (size_t)l));
        const int rank = carrier(node, l);
        for (int i = 0; i < leap->outs; i++) {
            costs[rank].messages++;
            costs[rank].sent += bytes_of(rail, parts, leap->out[i].parts);
            meet(rank, carrier(leap->out[i].node, l));
        }
        for (int i = 0; i < leap->ins; i++) {
            costs[rank].received += bytes_of(rail, parts, leap->in[i].parts);
            meet(rank, carrier(leap->in[i].node, l));
        }
    }
}

static void start_walk(void)
{
    memset(costs, 0, (size_t)s.total * sizeof(costs[0]));
    memset(meets, 0, (size_t)s.total * sizeof(meets[0]));
}

void walk_rooted(size_t bytes, int root, lsi_leap_fn *find)
{
    start_walk();
    for (int k = 0; k < s.nodes; k++)
        for (int step = 0; step < lsi_nodes_steps(s.nodes); step++) {
            lsi_leap leap;
            find((lsi_rooted){s.nodes, root}, k, step, &leap);
            walk_step(&leap, k, bytes);
        }
}

void walk(size_t bytes)
{
    walk_rooted(bytes, 0, lsi_nodes_step);
}

static void move(int from, int to, size_t bytes)
{
    costs[from].messages++;
    costs[from].sent += bytes;
    costs[to].received += bytes;
    meet(from, to);
    meet(to, from);
}

/* The parts owned by ranks of `other` that the ranks of `node` carry. */
static void walk_shares(int node, int other, size_t block, bool gathers)
{
    const size_t begin = (size_t)s.first[other] * block;
    const size_t run = (size_t)s.ranks[other] * block;
    const lsi_cut cut = lsi_even_cut(run, s.ranks[node]);
    for (int i = 0; i < s.ranks[node]; i++) {
        const int carrier = s.first[node] + i;
        const lsi_range part = lsi_cut_part(&cut, run, s.ranks[node], i);
        const lsi_range share = {begin + part.begin, begin + part.end};
        for (size_t r = share.begin / block;
             lsi_range_size(share) != 0 && r <= (share.end - 1) / block; r++) {
            const lsi_range owned = {r * block, (r + 1) * block};
            const size_t bytes = lsi_range_size(lsi_range_common(share, owned));
            move(gathers ? (int)r : carrier, gathers ? carrier : (int)r, bytes);
        }
    }
}

void walk_blocks(size_t block, bool gathers)
{
    start_walk();
    for (int k = 0; k < s.nodes; k++)
        for (int j = 0; j < s.nodes; j++)
            if (j != k)
                walk_shares(k, j, block, gathers);
}

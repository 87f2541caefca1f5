/*
 * The schedule between nodes, followed without any transport. Checks which rank
 * carries each part, that each message has the right sender and receiver, and
 * that every node ends with every part, folded in the canonical order. Also
 * checks that the data of each rank are carried once to, or from, every node.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "comm/schedule/nodes.h"
#include "comm/schedule/shares.h"
#include "comm/schedule/tree.h"

enum { MOST = 64, PARTS = 64 };

/* ---- rails --------------------------------------------------------------- */

static void each_rail_has_one_carrier_on_each_node(void **state)
{
    (void)state;
    for (int rails = 1; rails <= 20; rails++)
        for (int ranks = 1; ranks <= rails; ranks++) {
            size_t next = 0;
            for (int i = 0; i < ranks; i++) {
                const lsi_range carried = lsi_rails_carried(rails, ranks, i);
                assert_int_equal(carried.begin, next);
                assert_true(lsi_range_size(carried) > 0);
                next = carried.end;
                for (size_t l = carried.begin; l < carried.end; l++)
                    assert_int_equal(lsi_rail_carrier(rails, ranks, (int)l), i);
            }
            assert_int_equal(next, rails);
        }
    assert_int_equal(lsi_rails_between((int[]){2, 1, 3}, 3), 3);
    assert_int_equal(lsi_rails_between((int[]){1, 1}, 2), 1);
}

/* ---- sums ---------------------------------------------------------------- */

/*
 * A sum is a hash of the tree by which it was added up: equal only if the
 * order was.
 */
static uint64_t added(uint64_t a, uint64_t b)
{
    uint64_t x = a * 0x9e3779b97f4a7c15u + b;
    x ^= x >> 29;
    return x * 0xbf58476d1ce4e5b9u + 1;
}

/* Folds as fold.def says. */
static uint64_t folded(const uint64_t *values, int n)
{
    uint64_t x[MOST];
    memcpy(x, values, (size_t)n * sizeof(x[0]));
    while (n > 1) {
        int h = 1;
        while (h * 2 < n)
            h *= 2;
        for (int i = 0; i + h < n; i++)
            x[i] = added(x[i], x[i + h]);
        n = h;
    }
    return x[0];
}

typedef struct world {
    uint64_t sum[MOST][PARTS];
    lsi_leap leap[MOST];
} world;

static const lsi_leg *leg_from(const lsi_leap *leap, int node)
{
    for (int i = 0; i < leap->outs; i++)
        if (leap->out[i].node == node)
            return &leap->out[i];
    return NULL;
}

/* The incoming value of a part, folded with the local one in the order of
 * nodes. */
static uint64_t arrived(const world *before, int node, size_t part)
{
    const lsi_leap *leap = &before->leap[node];
    uint64_t values[LSI_FEW_NODES + 1];
    int n = 0;
    bool own = false;
    if (!leap->adds)
        return before->sum[leap->in[0].node][part];
    for (int i = 0; i < leap->ins; i++) {
        if (leap->in[i].node > node && !own) {
            values[n++] = before->sum[node][part];
            own = true;
        }
        values[n++] = before->sum[leap->in[i].node][part];
    }
    if (!own)
        values[n++] = before->sum[node][part];
    return folded(values, n);
}

static void deliver(const world *before, world *after, int node)
{
    const lsi_leap *leap = &before->leap[node];
    for (int i = 0; i < leap->ins; i++) {
        const lsi_leg *in = &leap->in[i];
        const lsi_leg *out = leg_from(&before->leap[in->node], node);
        assert_non_null(out);
        assert_int_equal(out->parts.begin, in->parts.begin);
        assert_int_equal(out->parts.end, in->parts.end);
        if (i > 0)
            assert_true(in->node > leap->in[i - 1].node);
        for (size_t p = in->parts.begin; p < in->parts.end; p++)
            after->sum[node][p] = leap->adds ? arrived(before, node, p)
                                             : before->sum[in->node][p];
    }
}

static void follow(int nodes)
{
    static world now, next;
    uint64_t values[MOST];
    const int parts = lsi_nodes_parts(nodes);
    for (int k = 0; k < nodes; k++) {
        values[k] = (uint64_t)k + 1;
        for (int p = 0; p < parts; p++)
            now.sum[k][p] = values[k];
    }
    for (int step = 0; step < lsi_nodes_steps(nodes); step++) {
        int outs = 0, ins = 0;
        for (int k = 0; k < nodes; k++) {
            lsi_nodes_step((lsi_rooted){nodes, 0}, k, step, &now.leap[k]);
            outs += now.leap[k].outs;
            ins += now.leap[k].ins;
            if (now.leap[k].ins != 0)
                assert_true(now.leap[k].adds ==
                            (step < lsi_nodes_first_gather(nodes)));
        }
        assert_int_equal(outs, ins);
        next = now;
        for (int k = 0; k < nodes; k++)
            deliver(&now, &next, k);
        now = next;
    }
    for (int k = 0; k < nodes; k++)
        for (int p = 0; p < parts; p++)
            assert_true(now.sum[k][p] == folded(values, nodes));
}

static void every_node_gets_the_folded_sum(void **state)
{
    (void)state;
    for (int nodes = 1; nodes <= MOST; nodes++)
        follow(nodes);
}

/* ---- with a root --------------------------------------------------------- */

static void find_all(world *w, lsi_rooted shape, int step, lsi_leap_fn *find)
{
    int outs = 0, ins = 0;
    for (int k = 0; k < shape.nodes; k++) {
        find(shape, k, step, &w->leap[k]);
        outs += w->leap[k].outs;
        ins += w->leap[k].ins;
    }
    assert_int_equal(outs, ins);
}

static void follow_reduce(lsi_rooted shape)
{
    static world now, next;
    uint64_t values[MOST];
    const int parts = lsi_nodes_parts(shape.nodes);
    for (int k = 0; k < shape.nodes; k++) {
        values[k] = (uint64_t)k + 1;
        for (int p = 0; p < parts; p++)
            now.sum[k][p] = values[k];
    }
    for (int step = 0; step < lsi_nodes_steps(shape.nodes); step++) {
        find_all(&now, shape, step, lsi_nodes_reduce_step);
        next = now;
        for (int k = 0; k < shape.nodes; k++)
            deliver(&now, &next, k);
        now = next;
    }
    for (int p = 0; p < parts; p++)
        assert_true(now.sum[shape.root][p] == folded(values, shape.nodes));
}

/* A sender has the data, and a receiver did not have them. */
static void follow_broadcast(lsi_rooted shape)
{
    static world now, next;
    const int parts = lsi_nodes_parts(shape.nodes);
    for (int k = 0; k < shape.nodes; k++)
        for (int p = 0; p < parts; p++)
            now.sum[k][p] = k == shape.root;
    for (int step = 0; step < lsi_nodes_steps(shape.nodes); step++) {
        find_all(&now, shape, step, lsi_nodes_broadcast_step);
        next = now;
        for (int k = 0; k < shape.nodes; k++) {
            const lsi_leap *leap = &now.leap[k];
            assert_false(leap->adds);
            deliver(&now, &next, k);
            for (int i = 0; i < leap->ins; i++)
                for (size_t p = leap->in[i].parts.begin;
                     p < leap->in[i].parts.end; p++)
                    assert_true(!now.sum[k][p] && next.sum[k][p]);
        }
        now = next;
    }
    for (int k = 0; k < shape.nodes; k++)
        for (int p = 0; p < parts; p++)
            assert_true(now.sum[k][p]);
}

static void roots_get_and_give_all(void **state)
{
    (void)state;
    for (int nodes = 1; nodes <= 40; nodes++)
        for (int root = 0; root < nodes; root++) {
            follow_reduce((lsi_rooted){nodes, root});
            follow_broadcast((lsi_rooted){nodes, root});
        }
}

/* ---- shares -------------------------------------------------------------- */

enum { ELEMENTS = 400000 };

static lsi_range owned_by(const lsi_owners *all, int rank)
{
    return lsi_cut_part(&all->cut, all->count, all->ranks, rank);
}

/* A window has the same elements whichever node carries it. */
static void check_same(const bool *carried, const lsi_shares *s)
{
    for (int i = 0; i < s->carriers.ranks; i++) {
        const lsi_range part = lsi_shares_part(s, i);
        for (size_t e = part.begin; e < part.end; e++)
            assert_true(carried[e]);
    }
}

/* Each element that the ranks of a node own is carried once by those of
 * another. */
static void follow_shares(const lsi_owners *all, lsi_node_ranks owners,
                          lsi_node_ranks carriers)
{
    static bool carried[ELEMENTS];
    const size_t most = lsi_shares_most(all, carriers.ranks);
    size_t moved = 0, owned = 0;
    lsi_shares s;
    memset(carried, 0, sizeof(carried));
    for (size_t w = 0; lsi_shares_window(all, owners, carriers, w, &s); w++) {
        size_t window = 0;
        for (int i = 0; i < carriers.ranks; i++) {
            const lsi_range part = lsi_shares_part(&s, i);
            for (size_t e = part.begin; e < part.end; e++) {
                assert_false(carried[e]);
                carried[e] = true;
            }
            window += lsi_range_size(part);
            if (owners.rank != carriers.rank || lsi_range_size(part) == 0)
                continue;
            /* Its own ranks share it as they own it. */
            const lsi_range own = owned_by(all, carriers.rank[i]);
            assert_true(part.begin >= own.begin && part.end <= own.end);
        }
        assert_true(window <= most);
        assert_int_equal(window == 0, s.carriers.ranks == 0);
        moved += window;
        lsi_shares own;
        assert_true(lsi_shares_window(all, owners, owners, w, &own));
        check_same(carried, &own);
    }
    for (int i = 0; i < owners.ranks; i++) {
        const lsi_range own = owned_by(all, owners.rank[i]);
        owned += lsi_range_size(own);
        for (size_t e = own.begin; e < own.end; e++)
            assert_true(carried[e]);
    }
    assert_int_equal(moved, owned);
}

static void follow_all(const lsi_node_ranks *nodes, int n, bool alike)
{
    static const lsi_owners all[] = {
        {{.shard = 1000}, 9000, 9, 4, 1000, false},
        {{.shard = 44001}, 44001 * 9, 9, 8, 5000, false},
        {{.shard = 44000}, 395000, 9, 4, 70000, false},
        {{.first = 30000, .shard = 40000}, 300000, 9, 2, 9000, false},
        {{.first = 90000, .shard = 100000}, 350000, 9, 1, 200000, false},
        {{.first = 7, .shard = 13}, 60, 9, 4, 16, false},
        {{.shard = 13}, 0, 9, 4, 16, false}};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        for (int j = 0; j < n; j++)
            for (int k = 0; k < n; k++) {
                lsi_owners owners = all[i];
                owners.alike = alike;
                follow_shares(&owners, nodes[j], nodes[k]);
            }
}

static void what_is_owned_is_carried_once(void **state)
{
    static const int a[] = {0, 1, 2}, b[] = {3}, c[] = {4, 6, 7}, d[] = {5, 8};
    static const int three[] = {3, 4, 5}, six[] = {6, 7, 8};
    (void)state;
    follow_all((lsi_node_ranks[]){{a, 3}, {b, 1}, {c, 3}, {d, 2}}, 4, false);
    follow_all((lsi_node_ranks[]){{a, 3}, {three, 3}, {six, 3}}, 3, true);
}

/* ---- arrivals ------------------------------------------------------------ */

static void blocks_reach_everybody_once(void **state)
{
    (void)state;
    for (int size = 1; size <= MOST; size++) {
        int heard = 1;
        for (int round = 0; round < lsi_doubling_rounds(size); round++)
            heard += lsi_dissemination_blocks(size, round);
        assert_int_equal(heard, size);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_rail_has_one_carrier_on_each_node),
        cmocka_unit_test(every_node_gets_the_folded_sum),
        cmocka_unit_test(roots_get_and_give_all),
        cmocka_unit_test(what_is_owned_is_carried_once),
        cmocka_unit_test(blocks_reach_everybody_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

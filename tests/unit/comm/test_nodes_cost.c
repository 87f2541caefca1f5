/*
 * What an all-reduce between nodes costs each rank, for up to 4,096 ranks in
 * any shape: the schedule is walked, its messages, bytes and connections are
 * counted, and the counts are held against formulas that know nothing of it.
 * The table in docs/collectives.md is what this program counts.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/partition.h"
#include "comm/schedule/nodes.h"
#include "testing.h"

enum { MOST = 4096 };

typedef struct shape {
    int nodes, total, lanes;
    int ranks[MOST], first[MOST]; /* of each node */
} shape;

typedef struct cost {
    size_t messages, sent, received;
    int connections;
} cost;

static shape s;
static cost costs[MOST];
static uint64_t meets[MOST][MOST / 64];

/* ---- shapes -------------------------------------------------------------- */

static void finish_shape(void)
{
    s.total = 0;
    for (int k = 0; k < s.nodes; k++) {
        s.first[k] = s.total;
        s.total += s.ranks[k];
    }
    s.lanes = lsi_lanes_between(s.ranks, s.nodes);
}

/* `each` ranks on a node; the last has what is left. */
static void even_shape(int total, int each)
{
    s.nodes = 0;
    for (int left = total; left > 0; left -= each)
        s.ranks[s.nodes++] = left < each ? left : each;
    finish_shape();
}

/* One node has many of the ranks, the others have one. */
static void lopsided_shape(int total)
{
    s.nodes = 1;
    s.ranks[0] = total < 128 ? total / 2 : 64;
    for (int left = total - s.ranks[0]; left > 0; left--)
        s.ranks[s.nodes++] = 1;
    finish_shape();
}

static void mixed_shape(int total)
{
    unsigned x = (unsigned)total;
    s.nodes = 0;
    for (int left = total; left > 0; left -= s.ranks[s.nodes++]) {
        x = x * 1103515245u + 12345u;
        const int n = 1 + (int)(x >> 16) % 12;
        s.ranks[s.nodes] = n < left ? n : left;
    }
    finish_shape();
}

/* ---- the walk ------------------------------------------------------------ */

static int carrier(int node, int lane)
{
    /* As lsi_lane_carrier, which test_nodes.c holds to lsi_lanes_carried. */
    const size_t lanes = (size_t)s.lanes, ranks = (size_t)s.ranks[node];
    const size_t small = lanes / ranks, large = lanes % ranks;
    const size_t l = (size_t)lane, border = large * (small + 1);
    const size_t index =
        l < border ? l / (small + 1) : large + (l - border) / small;
    return s.first[node] + (int)index;
}

/* Of consecutive parts of a lane. */
static size_t bytes_of(size_t lane, int parts, lsi_range range)
{
    const size_t n = (size_t)parts;
    return lsi_partition(lane, n, range.end - 1).end -
           lsi_partition(lane, n, range.begin).begin;
}

static void meet(int a, int b)
{
    if (meets[a][b / 64] >> (b % 64) & 1)
        return;
    meets[a][b / 64] |= (uint64_t)1 << (b % 64);
    costs[a].connections++;
}

/* What a node does in a step is the same for all lanes. */
static void walk_step(const lsi_leap *leap, int node, size_t bytes)
{
    const int parts = lsi_nodes_parts(s.nodes);
    for (int l = 0; l < s.lanes; l++) {
        const size_t lane =
            lsi_range_size(lsi_partition(bytes, (size_t)s.lanes, (size_t)l));
        const int rank = carrier(node, l);
        for (int i = 0; i < leap->outs; i++) {
            costs[rank].messages++;
            costs[rank].sent += bytes_of(lane, parts, leap->out[i].parts);
            meet(rank, carrier(leap->out[i].node, l));
        }
        for (int i = 0; i < leap->ins; i++) {
            costs[rank].received += bytes_of(lane, parts, leap->in[i].parts);
            meet(rank, carrier(leap->in[i].node, l));
        }
    }
}

static void walk(size_t bytes)
{
    memset(costs, 0, (size_t)s.total * sizeof(costs[0]));
    memset(meets, 0, (size_t)s.total * sizeof(meets[0]));
    for (int k = 0; k < s.nodes; k++)
        for (int step = 0; step < lsi_nodes_steps(s.nodes); step++) {
            lsi_leap leap;
            lsi_nodes_step(s.nodes, k, step, &leap);
            walk_step(&leap, k, bytes);
        }
}

/* ---- the formulas -------------------------------------------------------- */

static int log2_of(int n)
{
    int log = 0;
    while (n >>= 1)
        log++;
    return log;
}

/* How many nodes a node talks to. */
static int peers_of(int nodes, int node)
{
    const int log = log2_of(nodes), power = 1 << log;
    if (nodes <= 8)
        return nodes - 1;
    return node >= power ? 1 : log + (node + power < nodes);
}

/* How many messages a node sends for a lane. */
static int messages_of(int nodes, int node)
{
    const int log = log2_of(nodes), power = 1 << log;
    if (nodes <= 8)
        return 2 * (nodes - 1);
    return node >= power ? 1 : 2 * log + (node + power < nodes);
}

/* How much of a lane a node sends, in parts of it. */
static int parts_sent(int nodes, int node)
{
    const int power = 1 << log2_of(nodes);
    if (nodes <= 8)
        return 2 * (nodes - 1);
    return node >= power ? power
                         : 2 * (power - 1) + (node + power < nodes) * power;
}

static void check_rank(int node, int index, size_t part)
{
    const cost *c = &costs[s.first[node] + index];
    const lsi_range range = lsi_lanes_carried(s.lanes, s.ranks[node], index);
    const size_t carried = lsi_range_size(range);
    const int peers = peers_of(s.nodes, node);
    assert_true(carried >= 1);
    assert_true(carried <= (size_t)((s.lanes - 1) / s.ranks[node] + 1));
    assert_int_equal(c->messages, carried * (size_t)messages_of(s.nodes, node));
    assert_int_equal(c->sent,
                     carried * (size_t)parts_sent(s.nodes, node) * part);
    /* It meets who carries its lanes elsewhere: one or more on each node. */
    assert_true(c->connections >= peers);
    assert_true(c->connections <= peers * (int)carried);
    if (s.nodes > 8)
        assert_true(peers <= log2_of(s.nodes) + 1);
}

/* Whatever the shape and the length, so much crosses between nodes in all. */
static void check_total(size_t bytes)
{
    size_t sent = 0, received = 0;
    for (int r = 0; r < s.total; r++) {
        sent += costs[r].sent;
        received += costs[r].received;
    }
    assert_int_equal(sent, 2 * (size_t)(s.nodes - 1) * bytes);
    assert_int_equal(received, sent);
}

static void check_shape(void)
{
    const size_t part = 3;
    const size_t bytes =
        part * (size_t)s.lanes * (size_t)lsi_nodes_parts(s.nodes);
    walk(bytes);
    check_total(bytes);
    for (int k = 0; k < s.nodes; k++)
        for (int i = 0; i < s.ranks[k]; i++)
            check_rank(k, i, part);
}

static void check_shapes(int total)
{
    static const int each[] = {1, 2, 3, 8, 24, 64, 500};
    for (size_t i = 0; i < TEST_COUNT(each); i++) {
        even_shape(total, each[i]);
        check_shape();
    }
    lopsided_shape(total);
    check_shape();
    mixed_shape(total);
    check_shape();
}

static void counts_follow_the_formulas(void **state)
{
    (void)state;
    for (int total = 2; total <= 200; total++)
        check_shapes(total);
    for (int power = 256; power <= MOST; power *= 2)
        for (int total = power - 1; total <= power + 1 && total <= MOST;
             total++)
            check_shapes(total);
    for (int total = 331; total <= MOST; total += 419)
        check_shapes(total);
}

static void odd_lengths_cross_once(void **state)
{
    static const size_t lengths[] = {0, 1, 7, 1000, 12345};
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(lengths); i++)
        for (int total = 2; total <= 100; total++) {
            mixed_shape(total);
            walk(lengths[i]);
            check_total(lengths[i]);
        }
}

/* ---- the table ----------------------------------------------------------- */

static void write_row(char *row, size_t room, const char *name)
{
    const size_t bytes = (size_t)s.lanes * (size_t)lsi_nodes_parts(s.nodes);
    size_t messages = 0, rank_sent = 0, node_sent = 0;
    int connections = 0, node_connections = 0;
    walk(bytes);
    for (int k = 0; k < s.nodes; k++) {
        size_t sent = 0;
        int met = 0;
        for (int r = s.first[k]; r < s.first[k] + s.ranks[k]; r++) {
            const cost *c = &costs[r];
            messages = c->messages > messages ? c->messages : messages;
            rank_sent = c->sent > rank_sent ? c->sent : rank_sent;
            if (c->connections > connections)
                connections = c->connections;
            sent += c->sent;
            met += c->connections;
        }
        node_sent = sent > node_sent ? sent : node_sent;
        node_connections = met > node_connections ? met : node_connections;
    }
    snprintf(row, room, "| %s | %d | %zu | %.3f S | %.3f S | %d | %d |\n", name,
             s.total, messages, (double)rank_sent / (double)bytes,
             (double)node_sent / (double)bytes, connections, node_connections);
}

static char *read_text(const char *path)
{
    char *text = calloc(1, 1 << 20);
    FILE *file = fopen(path, "r");
    assert_non_null(text);
    assert_non_null(file);
    const size_t got = fread(text, 1, (1 << 20) - 1, file);
    assert_true(got > 0);
    fclose(file);
    return text;
}

static void the_page_shows_what_is_counted(void **state)
{
    static const struct {
        const char *name;
        int ranks[4], times[4]; /* so many nodes with so many ranks each */
    } rows[] = {
        {"2 x 2", {2}, {2}},     {"2 + 1 + 3", {2, 1, 3}, {1, 1, 1}},
        {"8 x 4", {4}, {8}},     {"7 x 16 + 1 x 5", {16, 5}, {7, 1}},
        {"16 x 16", {16}, {16}}, {"24 x 16", {16}, {24}},
        {"64 x 64", {64}, {64}}, {"63 x 64 + 1 x 1", {64, 1}, {63, 1}},
        {"512 x 8", {8}, {512}}, {"4096 x 1", {1}, {4096}},
    };
    char table[2048] = "";
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        s.nodes = 0;
        for (int j = 0; j < 4; j++)
            for (int n = 0; n < rows[i].times[j]; n++)
                s.ranks[s.nodes++] = rows[i].ranks[j];
        finish_shape();
        const size_t used = strlen(table);
        write_row(table + used, sizeof(table) - used, rows[i].name);
    }
    char *page = read_text(COLLECTIVES_PAGE);
    const bool found = strstr(page, table) != NULL;
    free(page);
    if (!found)
        fail_msg("%s does not have this table:\n%s", COLLECTIVES_PAGE, table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_follow_the_formulas),
        cmocka_unit_test(odd_lengths_cross_once),
        cmocka_unit_test(the_page_shows_what_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

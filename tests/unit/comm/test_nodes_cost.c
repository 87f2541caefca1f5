/*
 * The cost of collectives between nodes for each rank, for up to 4,096 ranks in
 * any shape. The schedules are walked, and their messages, bytes and
 * connections counted. The counts are compared with independent formulas. The
 * tables in docs/dev/collectives.md are what this program counts.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/partition.h"
#include "nodes_walk.h"
#include "testing.h"

/* ---- shapes -------------------------------------------------------------- */

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

/* How many messages a node sends for a rail. */
static int messages_of(int nodes, int node)
{
    const int log = log2_of(nodes), power = 1 << log;
    if (nodes <= 8)
        return 2 * (nodes - 1);
    return node >= power ? 1 : 2 * log + (node + power < nodes);
}

/* How much of a rail a node sends, in parts of it. */
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
    const lsi_range range = lsi_rails_carried(s.rails, s.ranks[node], index);
    const size_t carried = lsi_range_size(range);
    const int peers = peers_of(s.nodes, node);
    assert_true(carried >= 1);
    assert_true(carried <= (size_t)((s.rails - 1) / s.ranks[node] + 1));
    assert_int_equal(c->messages, carried * (size_t)messages_of(s.nodes, node));
    assert_int_equal(c->sent,
                     carried * (size_t)parts_sent(s.nodes, node) * part);
    /* It meets who carries its rails elsewhere: one or more on each node. */
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

static size_t all_sent(void)
{
    size_t sent = 0, received = 0;
    for (int r = 0; r < s.total; r++) {
        sent += costs[r].sent;
        received += costs[r].received;
    }
    assert_int_equal(sent, received);
    return sent;
}

/*
 * Of a reduce, in parts of a rail: each node but one sends all its data. Then
 * the sums go to the root, with more than 8 nodes from hand to hand.
 */
static size_t parts_reduced(int nodes, int root)
{
    const size_t n = (size_t)nodes, log = (size_t)log2_of(nodes);
    const size_t power = (size_t)1 << log;
    if (nodes <= 8)
        return (n - 1) * (n + 1);
    return (n - 1) * power + power / 2 * log + ((size_t)root >= power) * power;
}

/* To each node but the root's once, however they pass it on. */
static void check_broadcast(size_t bytes, int root)
{
    walk_rooted(bytes, root, lsi_nodes_broadcast_step);
    assert_int_equal(all_sent(), (size_t)(s.nodes - 1) * bytes);
    for (int k = 0; k < s.nodes; k++) {
        size_t received = 0;
        for (int i = 0; i < s.ranks[k]; i++)
            received += costs[s.first[k] + i].received;
        assert_int_equal(received, k == root ? 0 : bytes);
    }
}

static void check_rooted(size_t part)
{
    const size_t rail = part * (size_t)lsi_nodes_parts(s.nodes);
    const int root = s.total * 7 % s.nodes;
    check_broadcast(rail * (size_t)s.rails, root);
    walk_rooted(rail * (size_t)s.rails, root, lsi_nodes_reduce_step);
    assert_int_equal(all_sent(),
                     part * (size_t)s.rails * parts_reduced(s.nodes, root));
}

/*
 * Each block crosses once to, or from, every other node. Ranks of nodes of one
 * size exchange it whole, with one rank of each.
 */
static void check_blocks(bool gathers)
{
    const size_t block = 12, others = (size_t)s.nodes - 1;
    bool even = true;
    walk_blocks(block, gathers);
    assert_int_equal(all_sent(), (size_t)s.total * others * block);
    for (int k = 1; k < s.nodes; k++)
        even = even && s.ranks[k] == s.ranks[0];
    for (int k = 0; k < s.nodes; k++)
        for (int i = 0; i < s.ranks[k]; i++) {
            const cost *c = &costs[s.first[k] + i];
            if (gathers)
                assert_int_equal(c->sent, others * block);
            else
                assert_int_equal(c->received, others * block);
            /* From its end of a node to the other one's. */
            assert_true(c->messages <=
                        others * ((size_t)s.rails / (size_t)s.ranks[k] + 2));
            assert_true(c->messages >= (gathers ? others : 0));
            if (!even)
                continue;
            assert_int_equal(c->messages, others);
            assert_int_equal(c->connections, others);
            assert_int_equal(c->sent, others * block);
        }
}

static void check_shape(void)
{
    const size_t part = 3;
    const size_t bytes =
        part * (size_t)s.rails * (size_t)lsi_nodes_parts(s.nodes);
    walk(bytes);
    check_total(bytes);
    for (int k = 0; k < s.nodes; k++)
        for (int i = 0; i < s.ranks[k]; i++)
            check_rank(k, i, part);
    if (s.nodes <= 600)
        check_rooted(part);
    if (s.nodes <= 64) { /* each with each */
        check_blocks(false);
        check_blocks(true);
    }
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

/* The costs of the walk, for a total of `bytes`. */
static void write_costs(char *row, size_t room, const char *name, size_t bytes)
{
    size_t messages = 0, rank_sent = 0, node_sent = 0;
    int connections = 0, node_connections = 0;
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

/* Rails and parts, or blocks, of whole bytes. */
static size_t bytes_in_parts(void)
{
    return (size_t)s.rails * (size_t)lsi_nodes_parts(s.nodes);
}

static void write_row(char *row, size_t room, const char *name)
{
    walk(bytes_in_parts());
    write_costs(row, room, name, bytes_in_parts());
}

static void write_others(char *rows, size_t room, const char *name)
{
    static const char *const kinds[] = {"reduce-scatter", "all-gather",
                                        "broadcast", "reduce"};
    const size_t block = 2520; /* which many numbers of ranks divide */
    for (size_t i = 0; i < TEST_COUNT(kinds); i++) {
        char title[64];
        const bool rooted = i >= 2;
        if (rooted)
            walk_rooted(bytes_in_parts(), 0,
                        i == 2 ? lsi_nodes_broadcast_step
                               : lsi_nodes_reduce_step);
        else
            walk_blocks(block, i == 1);
        const size_t used = strlen(rows);
        snprintf(title, sizeof(title), "%s | %s", kinds[i], name);
        write_costs(rows + used, room - used, title,
                    rooted ? bytes_in_parts() : block * (size_t)s.total);
    }
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

typedef struct table_row {
    const char *name;
    int ranks[4], times[4]; /* times[i] nodes with ranks[i] ranks each */
} table_row;

static void shape_of_row(const table_row *row)
{
    s.nodes = 0;
    for (int j = 0; j < 4; j++)
        for (int n = 0; n < row->times[j]; n++)
            s.ranks[s.nodes++] = row->ranks[j];
    finish_shape();
}

static void check_page(const char *table)
{
    char *page = read_text(COLLECTIVES_PAGE);
    const bool found = strstr(page, table) != NULL;
    free(page);
    if (found)
        return;
    fputs(table, stderr); /* a message of cmocka would cut it */
    fail_msg("%s does not have this table", COLLECTIVES_PAGE);
}

static void the_page_shows_what_is_counted(void **state)
{
    static const table_row rows[] = {
        {"2 x 2", {2}, {2}},     {"2 + 1 + 3", {2, 1, 3}, {1, 1, 1}},
        {"8 x 4", {4}, {8}},     {"7 x 16 + 1 x 5", {16, 5}, {7, 1}},
        {"16 x 16", {16}, {16}}, {"24 x 16", {16}, {24}},
        {"64 x 64", {64}, {64}}, {"63 x 64 + 1 x 1", {64, 1}, {63, 1}},
        {"512 x 8", {8}, {512}}, {"4096 x 1", {1}, {4096}},
    };
    char table[2048] = "";
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        shape_of_row(&rows[i]);
        const size_t used = strlen(table);
        write_row(table + used, sizeof(table) - used, rows[i].name);
    }
    check_page(table);
}

static void and_the_others(void **state)
{
    static const table_row rows[] = {{"2 x 2", {2}, {2}},
                                     {"2 + 1 + 3", {2, 1, 3}, {1, 1, 1}},
                                     {"8 x 4", {4}, {8}},
                                     {"16 x 16", {16}, {16}},
                                     {"512 x 8", {8}, {512}}};
    char table[4096] = "";
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        shape_of_row(&rows[i]);
        write_others(table, sizeof(table), rows[i].name);
    }
    check_page(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_follow_the_formulas),
        cmocka_unit_test(odd_lengths_cross_once),
        cmocka_unit_test(the_page_shows_what_is_counted),
        cmocka_unit_test(and_the_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

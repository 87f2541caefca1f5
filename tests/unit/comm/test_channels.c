/*
 * The channel table: how each rank reaches each other one, and what follows
 * from it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "comm/state/channels.h"
#include "nodes.h"

typedef struct expected {
    const char *here;       /* the channel to ranks of this node */
    int nodes, ranks_on[3]; /* in order */
} expected;

static int node_of(const expected *e, int rank)
{
    int node = 0;
    for (; rank >= e->ranks_on[node]; node++)
        rank -= e->ranks_on[node];
    return node;
}

static int first_on(const expected *e, int node)
{
    int first = 0;
    while (node-- > 0)
        first += e->ranks_on[node];
    return first;
}

static void check_table(ls_group *group, void *argument)
{
    const expected *const e = argument;
    const int node = node_of(e, ls_group_rank(group));
    CHECK(lsi_spans_nodes(group) == (e->nodes > 1));
    CHECK(ls_group_local_size(group) == e->ranks_on[node]);
    for (int r = 0; r < ls_group_size(group); r++) {
        const lsi_channel_kind *channel = lsi_channel_to(group, r);
        const bool here = node_of(e, r) == node;
        CHECK(strcmp(channel->name, here ? e->here : "wire") == 0);
        CHECK(lsi_shares_memory(group, r) == here);
        CHECK((channel->read != NULL) == here);
        CHECK(channel->alive(group, r));
        CHECK(group->channels.peer[r].local_rank ==
              (here ? r - first_on(e, node) : -1));
    }
    CHECK_OK(ls_barrier(group));
}

/* A part of one node's ranks does not span nodes, whatever its whole does. */
static void check_parts(ls_group *group, void *argument)
{
    const expected *const e = argument;
    ls_group *part = NULL;
    const int node = node_of(e, ls_group_rank(group));
    expected here = {e->here, 1, {e->ranks_on[node]}};
    check_table(group, argument);
    CHECK_OK(ls_group_split(group, node, 0, &part));
    check_table(part, &here);
    ls_group_close(&part);
}

static void threads_are_one_process(void **state)
{
    expected e = {"process", 1, {4}};
    (void)state;
    run_threads(4, check_parts, &e);
}

static void processes_share_memory(void **state)
{
    expected e = {"memory", 1, {3}};
    (void)state;
    run_processes(3, check_parts, &e);
}

static void nodes_are_joined_by_the_wire(void **state)
{
    expected e = {"process", 3, {2, 1, 3}};
    (void)state;
    run_nodes(e.ranks_on, e.nodes, check_parts, &e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_are_one_process),
        cmocka_unit_test(processes_share_memory),
        cmocka_unit_test(nodes_are_joined_by_the_wire),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

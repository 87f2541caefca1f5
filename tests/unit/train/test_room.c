/*
 * Whether there is room for what ranks are about to take: the formulas, and the
 * question that they ask together.
 */
#include "testing.h"

#include "base/error.h"
#include "train/memory_demand.h"
#include "unit/comm/nodes.h"

enum { RANKS = 3 };

static int64_t needed(const ls_group *group, ls_ddp_strategy strategy,
                      int moments, bool rounded)
{
    lsi_memory_plan wish = {
        .parameters = 1000, .moments = moments, .rounded = rounded};
    CHECK_OK(lsi_strategy_find(strategy, &wish.strategy));
    return lsi_memory_plan_bytes(group, &wish);
}

/* The table of docs/concepts/parallel.md, of all ranks. */
static void play_formulas(ls_group *group, void *unused)
{
    const int n = RANKS;
    (void)unused;
    CHECK(needed(group, LS_DDP_FLAT, 2, false) == 4000 * 4 * n);
    CHECK(needed(group, LS_DDP_BUCKETED, 0, false) == 4000 * 2 * n);
    CHECK(needed(group, LS_DDP_FLAT, 2, true) == 4000 * 4 * n + 2000 * n);
    CHECK(needed(group, LS_DDP_ZERO1, 2, false) == 4000 * (2 * n + 2));
    CHECK(needed(group, LS_DDP_OWNERS, 1, false) == 4000 * (2 * n + 1));
    CHECK(needed(group, LS_DDP_SHARED, 2, false) == 4000 * (1 + n + 2));
    CHECK(needed(group, LS_DDP_FSDP, 1, false) == 4000 * 3);
    CHECK(needed(group, LS_DDP_FSDP, 2, true) == 4000 * (1 + 1 + 2) + 2000);
}

/* A node has the part of its ranks, also while the weights are made. */
static void play_nodes(ls_group *group, void *unused)
{
    const int64_t here = ls_group_local_size(group);
    (void)unused;
    CHECK(needed(group, LS_DDP_SHARED, 0, false) == 4000 * (1 + here));
    CHECK(needed(group, LS_DDP_FSDP, 2, false) == 4000 * 4 * here / RANKS);
}

static void formulas(void **state)
{
    (void)state;
    run_threads(RANKS, play_formulas, NULL);
    run_nodes((int[]){1, 2}, 2, play_nodes, NULL);
}

/* Every rank gets the numbers of the one that lacks most. */
static void play_asking(ls_group *group, void *unused)
{
    lsi_memory_demand room;
    const int rank = ls_group_rank(group);
    (void)unused;
    CHECK_OK(lsi_memory_demand_ask(group, 100 + rank, 1000, &room));
    CHECK(lsi_memory_demand_fits(room));
    CHECK(room.needed == 100 + RANKS - 1 && room.available == 1000);
    CHECK_OK(lsi_memory_demand_ask(group, rank == 1 ? 2000 : 10, 1000, &room));
    CHECK(!lsi_memory_demand_fits(room));
    CHECK(room.needed == 2000 && room.available == 1000);
    CHECK(lsi_memory_demand_fail(room, "a model") == LS_ERR_MEMORY);
    CHECK(strstr(ls_last_error(),
                 "a model do not fit into memory: the ranks on one machine "
                 "need at least 2.0 KiB, but only 1000 B are available") !=
          NULL);
    /* No machine has as much; every one has a little. */
    CHECK_OK(lsi_memory_demand_ask(group, INT64_MAX / 2, 0, &room));
    CHECK(!lsi_memory_demand_fits(room));
    CHECK_OK(lsi_memory_demand_ask(group, 1, 0, &room));
    CHECK(lsi_memory_demand_fits(room));
}

static void asking(void **state)
{
    (void)state;
    run_threads(RANKS, play_asking, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(formulas),
                                       cmocka_unit_test(asking)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

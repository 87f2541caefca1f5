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
    return lsi_memory_demand_of(group, &wish).needed;
}

/* Each rank has whole gradients of every slice but the first. */
static void play_slices(ls_group *group, void *unused)
{
    lsi_memory_plan wish = {.parameters = 1000, .moments = 2, .slices = 4};
    (void)unused;
    CHECK_OK(lsi_strategy_find(LS_DDP_FLAT, &wish.strategy));
    CHECK(lsi_memory_demand_of(group, &wish).needed == 4000 * (4 + 3) * RANKS);
    CHECK_OK(lsi_strategy_find(LS_DDP_FSDP, &wish.strategy));
    CHECK(lsi_memory_demand_of(group, &wish).needed ==
          4000 * (1 + 1 + 2 + 3 * RANKS));
}

/* Two buckets of each rank, at most all that others own. */
static void play_buckets(ls_group *group, void *unused)
{
    lsi_memory_plan wish = {.parameters = 3000, .moments = 2, .bucket = 100};
    (void)unused;
    CHECK_OK(lsi_strategy_find(LS_DDP_FSDP, &wish.strategy));
    CHECK(lsi_memory_demand_of(group, &wish).needed ==
          12000 * (1 + 1 + 2) + 200 * RANKS);
    wish.bucket = UINT64_MAX;
    CHECK(lsi_memory_demand_of(group, &wish).needed ==
          12000 * (1 + 1 + 2) + 8000 * RANKS);
    CHECK_OK(lsi_strategy_find(LS_DDP_SHARED, &wish.strategy));
    CHECK(lsi_memory_demand_of(group, &wish).needed == 12000 * (1 + RANKS + 2));
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

/*
 * Layers of 100, 300, 300 and 200 elements, in reverse order in memory: the
 * first node owns 0 .. 299, the last layer and a third of the one before.
 */
static lsi_layer_size layers[] = {{.begin = 800, .end = 900, .products = 100},
                                  {.begin = 500, .end = 800, .products = 300},
                                  {.begin = 200, .end = 500, .products = 300},
                                  {.begin = 0, .end = 200, .products = 200}};

static lsi_memory_plan layered(size_t ahead, bool rounded)
{
    lsi_memory_plan plan = {.parameters = 900,
                            .moments = 2,
                            .rounded = rounded,
                            .layers = {layers, 4},
                            .ahead = ahead};
    CHECK_OK(lsi_strategy_find(LS_DDP_FSDP, &plan.strategy));
    return plan;
}

static int64_t gathered(const ls_group *group, size_t ahead, bool rounded)
{
    const lsi_memory_plan plan = layered(ahead, rounded);
    const lsi_memory_demand demand = lsi_memory_demand_of(group, &plan);
    const int64_t own = ls_group_local_size(group) * 4800 +
                        (rounded ? ls_group_local_size(group) * 600 : 0);
    CHECK(demand.needed == own + demand.gathered);
    return demand.gathered;
}

static void play_window(ls_group *group, void *unused)
{
    const bool first = ls_group_local_size(group) == 1;
    (void)unused;
    CHECK(gathered(group, 0, false) == 4 * (first ? 300 : 200));
    CHECK(gathered(group, 1, false) == 4 * (first ? 500 : 300));
    CHECK(gathered(group, 2, false) == 4 * (first ? 600 : 300));
    CHECK(gathered(group, 9, true) == 2 * (first ? 600 : 300));
}

/*
 * The first layer has a table that a product reads, too: it stays. The node of
 * a rank gathers it in addition to two layers, of which it keeps a third.
 */
static void play_tied(ls_group *group, void *unused)
{
    lsi_memory_plan plan = layered(1, true);
    (void)unused;
    if (ls_group_local_size(group) > 1)
        return;
    layers[0].others = 100;
    CHECK(lsi_memory_demand_of(group, &plan).gathered ==
          (4 + 2) * 100 + 2 * (300 + 200));
    layers[0].others = 0;
}

static void check_advice(const ls_group *group, lsi_memory_demand room,
                         const char *text)
{
    const lsi_memory_plan plan = layered(2, false);
    CHECK(lsi_memory_demand_fail(group, room, &plan, "weights") ==
          LS_ERR_MEMORY);
    if (strstr(ls_last_error(), text) == NULL) {
        fprintf(stderr, "%s\n", ls_last_error());
        abort();
    }
}

/* 4800 bytes of a node of one rank, and windows of 1200, 2400 and 3200. */
static void play_advice(ls_group *group, void *unused)
{
    lsi_memory_demand room = {.needed = 7200, .gathered = 2400};
    (void)unused;
    if (ls_group_local_size(group) > 1)
        return;
    room.available = 7199;
    check_advice(group, room,
                 "2.3 KiB of this are gathered weights: 3 layers of at most "
                 "1.2 KiB (--prefetch-layers 2). Use --prefetch-layers 0");
    room.available = 4800; /* 3600 for the part: of 14400, a fourth */
    check_advice(group, room, "Use --prefetch-layers 0 and 4 nodes or more");
    room.available = 1200;
    check_advice(group, room, "Use machines with more memory");
}

static void windows(void **state)
{
    (void)state;
    run_nodes((int[]){1, 2}, 2, play_window, NULL);
    run_nodes((int[]){1, 2}, 2, play_tied, NULL);
    run_nodes((int[]){1, 2}, 2, play_advice, NULL);
}

/* A copy on each of two groups: of one node, or of two. */
static void play_groups(ls_group *group, void *unused)
{
    lsi_memory_plan wish = {.parameters = 1000, .moments = 2, .replicas = 2};
    const int64_t here = ls_group_local_size(group);
    (void)unused;
    CHECK_OK(lsi_strategy_find(LS_DDP_FSDP, &wish.strategy));
    CHECK(lsi_memory_demand_of(group, &wish).needed ==
          4000 * (1 + here) * RANKS / ls_group_size(group));
}

static void formulas(void **state)
{
    (void)state;
    run_threads(RANKS, play_formulas, NULL);
    run_threads(RANKS, play_slices, NULL);
    run_threads(RANKS, play_buckets, NULL);
    run_nodes((int[]){1, 2}, 2, play_nodes, NULL);
    run_nodes((int[]){1, 2}, 2, play_groups, NULL);
    run_nodes((int[]){1, 2, 1, 2}, 4, play_groups, NULL);
}

/* Every rank gets the numbers of the one that lacks most. */
static void play_asking(ls_group *group, void *unused)
{
    const int rank = ls_group_rank(group);
    const lsi_memory_plan plan = {.parameters = 0};
    lsi_memory_demand room = {.needed = 100 + rank};
    (void)unused;
    CHECK_OK(lsi_memory_demand_ask(group, 1000, &room));
    CHECK(lsi_memory_demand_fits(room));
    CHECK(room.needed == 100 + RANKS - 1 && room.available == 1000);
    room.needed = rank == 1 ? 2000 : 10;
    CHECK_OK(lsi_memory_demand_ask(group, 1000, &room));
    CHECK(!lsi_memory_demand_fits(room));
    CHECK(room.needed == 2000 && room.available == 1000);
    CHECK(lsi_memory_demand_fail(group, room, &plan, "a model") ==
          LS_ERR_MEMORY);
    CHECK(strstr(ls_last_error(),
                 "a model do not fit into memory: the ranks on one machine "
                 "need at least 2.0 KiB, but only 1000 B are available") !=
          NULL);
    /* No machine has as much; every one has a little. */
    room.needed = INT64_MAX / 2;
    CHECK_OK(lsi_memory_demand_ask(group, 0, &room));
    CHECK(!lsi_memory_demand_fits(room));
    room.needed = 1;
    CHECK_OK(lsi_memory_demand_ask(group, 0, &room));
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
                                       cmocka_unit_test(windows),
                                       cmocka_unit_test(asking)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

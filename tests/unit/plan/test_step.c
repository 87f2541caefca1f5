/*
 * Planned steps against figures worked out by hand, and schedules against what
 * crosses a link by arithmetic.
 */
#include <math.h>
#include <string.h>

#include "model/parallel/grad_range.h"
#include "plan/memory.h"
#include "plan/step.h"
#include "plan/training.h"
#include "testing.h"

/* Two tensors, 600 and 400 parameters; a step of 1 + 2 + 1 seconds. */
static int64_t tensors[] = {600, 400};
static const lsi_plan_model model = {.layers = 1,
                                     .d_model = 10,
                                     .d_ff = 20,
                                     .heads = 1,
                                     .vocabulary = 10,
                                     .parameters = 1000,
                                     .products = 900,
                                     .tensors = tensors,
                                     .n_tensors = 2};
static const lsi_plan_compute compute = {1, 2, 1};

static lsi_plan_run run_of(ls_ddp_strategy strategy, int64_t ranks,
                           int64_t nodes)
{
    lsi_plan_run run = {.model = &model,
                        .batch = 2,
                        .context = 4,
                        .ranks = ranks,
                        .nodes = nodes,
                        .bucket_bytes = UINT64_MAX};
    assert_ok(lsi_strategy_find(strategy, &run.strategy));
    if (run.strategy->buckets == LSI_BUCKETS_EACH)
        run.bucket_bytes = 0;
    return run;
}

static lsi_plan_place place_of(const lsi_plan_run *run)
{
    return (lsi_plan_place){.nodes = run->nodes,
                            .here = run->ranks / run->nodes,
                            .link = {1e6, 0.5},
                            .meeting = 0.25,
                            .memory = 8000,
                            .page = 2,
                            .rails = lsi_plan_steps_of((int)run->nodes)};
}

static lsi_plan_step step_of(ls_ddp_strategy strategy, int64_t ranks,
                             int64_t nodes)
{
    const lsi_plan_run run = run_of(strategy, ranks, nodes);
    const lsi_plan_place place = place_of(&run);
    return lsi_plan_step_of(&run, &place, compute);
}

static void equal(double value, double expected)
{
    if (fabs(value - expected) > 1e-9 * fabs(expected))
        fail_msg("%.12g is not %.12g", value, expected);
}

static void one_rank(void **state)
{
    (void)state;
    for (int i = 1; i <= LS_DDP_STRATEGY_COUNT; i++) {
        const lsi_plan_step s = step_of((ls_ddp_strategy)i, 1, 1);
        equal(s.step, 4 + 1); /* passes over 4000 bytes, back and forth */
        equal(s.exposed, 1);
        assert_true(s.collectives == 0 && s.rank_bytes == 0);
        assert_true(s.best_bucket == 0);
    }
}

/* A meeting is 0.25 s, an all-reduce of 4000 bytes touches 8000: 1 s. */
static void one_node(void **state)
{
    (void)state;
    const lsi_plan_step flat = step_of(LS_DDP_FLAT, 2, 1);
    equal(flat.step, 4 + 1.25);
    equal(flat.exposed, 1.25);
    equal(flat.rank_bytes, 4000);
    assert_int_equal(flat.collectives, 1);
    const lsi_plan_step naive = step_of(LS_DDP_NAIVE, 2, 1);
    equal(naive.step, 4 + 1.5);
    assert_int_equal(naive.collectives, 2);
    /* Ranks add up themselves, so beginning early saves nothing. */
    equal(step_of(LS_DDP_OVERLAP, 2, 1).step, 4 + 1.5);
    /* Reads both, writes one half; half of the optimizer; two barriers. */
    const lsi_plan_step shared = step_of(LS_DDP_SHARED, 2, 1);
    equal(shared.step, 3 + 0.25 + 0.75 + 0.5 + 2 * 0.25);
    equal(shared.rank_bytes, 2000);
    assert_int_equal(shared.collectives, 3);
    /* And the weights are written to the other. */
    const lsi_plan_step zero1 = step_of(LS_DDP_ZERO1, 2, 1);
    equal(zero1.step, shared.step + 0.25 + 0.25);
    equal(zero1.rank_bytes, 4000);
    /*
     * In two buckets, whose halves are written again: 2000 bytes are 2000 /
     * 4096 of a page, of 2 s. A meeting more than shared in one bucket would
     * have.
     */
    lsi_plan_run divided = run_of(LS_DDP_FSDP, 2, 1);
    divided.bucket_bytes = 2400;
    const lsi_plan_place place = place_of(&divided);
    const lsi_plan_step fsdp = lsi_plan_step_of(&divided, &place, compute);
    equal(fsdp.pages, 2000.0 / 4096);
    equal(fsdp.paging, 2 * 2000.0 / 4096);
    equal(fsdp.step, shared.step + 0.25 + fsdp.paging);
    equal(fsdp.exposed, shared.exposed + 0.25);
    assert_true(shared.pages == 0 && flat.pages == 0);
    equal(shared.best_bucket, sqrt(4000 * (4000 / 0.75) * 0.25));
}

/* The bytes that leave the busiest node of a segment of 1, by arithmetic. */
static void crossings(void **state)
{
    (void)state;
    for (int nodes = 2; nodes <= 4096; nodes = nodes * 3 / 2 + 1) {
        const lsi_plan_steps s = lsi_plan_steps_of(nodes);
        double all = 0;
        for (int i = 0; i < s.n; i++)
            all += s.share[i];
        int power = 1;
        while (2 * power <= nodes)
            power *= 2;
        /* Many that are no power of two fold and unfold all of it, too. */
        const double once =
            nodes <= 8 ? (nodes - 1.0) / nodes : (power - 1.0) / power;
        const double folds = nodes > 8 && power != nodes ? 2 : 0;
        equal(all, 2 * once + folds);
    }
    assert_int_equal(lsi_plan_steps_of(1).n, 0);
    assert_int_equal(lsi_plan_steps_of(8).n, 2);
    assert_int_equal(lsi_plan_steps_of(4096).n, 24);
}

/* Of much, latency is nothing: the link's time is what is left. */
static void links(void **state)
{
    (void)state;
    static const double bytes = 1e9;
    for (int nodes = 2; nodes <= 1024; nodes *= 8) {
        const lsi_plan_place place = {.nodes = nodes,
                                      .here = 1,
                                      .link = {1e9, 1e-9},
                                      .memory = 1e15,
                                      .rails = lsi_plan_steps_of(nodes)};
        const double once = (nodes - 1.0) / nodes;
        const lsi_plan_cost sum =
            lsi_plan_move_cost(&place, LSI_PLAN_ALL_REDUCE, bytes);
        assert_true(fabs(sum.seconds - 2 * once) < 0.02);
        equal(sum.sent, 2 * once * bytes);
        const lsi_plan_cost part =
            lsi_plan_move_cost(&place, LSI_PLAN_REDUCE_SCATTER, bytes);
        assert_true(fabs(part.seconds - once) < 0.02);
        equal(part.sent, once * bytes);
    }
}

/* Transfers during backward cost nothing. */
static void hidden(void **state)
{
    (void)state;
    const lsi_plan_run run = run_of(LS_DDP_OVERLAP, 2, 2);
    lsi_plan_place place = place_of(&run);
    place.link = (lsi_plan_link){1e9, 0.01};
    const lsi_plan_step s = lsi_plan_step_of(&run, &place, compute);
    assert_true(s.communication > 0.019);
    assert_true(s.exposed < s.communication);
    assert_true(s.exposed > 0.009);
}

/*
 * Four layers of 250 parameters, on two nodes with a window of two layers. The
 * node with the last half gathers the first two layers at a time, 2000 bytes.
 */
static lsi_layer_size layers[] = {{750, 1000, 200, 50, 0},
                                  {500, 750, 200, 50, 0},
                                  {250, 500, 200, 50, 0},
                                  {0, 250, 200, 50, 0}};
static lsi_plan_model layered(void)
{
    lsi_plan_model m = model;
    m.layer_sizes = (lsi_layer_sizes){layers, 4};
    return m;
}

static void window(void **state)
{
    (void)state;
    const lsi_plan_model m = layered();
    lsi_plan_run run = run_of(LS_DDP_FSDP, 2, 2);
    run.model = &m;
    run.ahead = 1;
    equal(lsi_plan_memory_of(&run).parameters, 2000);
    equal(lsi_plan_memory_of(&run).gathered, 2000);
    run.ahead = 0;
    equal(lsi_plan_memory_of(&run).gathered, 1000);
    run.ahead = 7;
    equal(lsi_plan_memory_of(&run).gathered, 2000);
    run.ahead = 1;
    run.ranks = 4; /* two of them share the window */
    equal(lsi_plan_memory_of(&run).parameters, 1000);
    equal(lsi_plan_memory_of(&run).gathered, 1000);
    run.half = true; /* 2 x 200 + 4 x 50 bytes of a layer */
    equal(lsi_plan_memory_of(&run).parameters, 1500);
    equal(lsi_plan_memory_of(&run).gathered, 600);
    run.nodes = 1;
    equal(lsi_plan_memory_of(&run).parameters, (4000 + 2000) / 4.0);
    equal(lsi_plan_memory_of(&run).gathered, 0);
}

static lsi_plan_step divided_step(const lsi_plan_model *m, double link)
{
    lsi_plan_run run = run_of(LS_DDP_FSDP, 2, 2);
    run.model = m;
    run.ahead = 1;
    lsi_plan_place place = place_of(&run);
    place.link.bytes = link;
    return lsi_plan_step_of(&run, &place, compute);
}

/*
 * A node gathers half of all layers forward, and half of the two that the
 * window does not have at the turn backward. A tied table is gathered once.
 */
static void gathers(void **state)
{
    (void)state;
    lsi_plan_model m = layered();
    const lsi_plan_step s = divided_step(&m, 1000);
    const lsi_plan_step plain = divided_step(&model, 1000);
    equal(s.gathered, 2000 + 1000);
    equal(s.link_bytes, 3000 + plain.link_bytes);
    equal(s.rank_bytes, 3000 + 2000);
    /*
     * Seconds until the first layer is here, 0.5 and 2 x 0.5 of latency. The
     * others take 1.5, and forward 1. Backward hides its gathers.
     */
    equal(s.step, plain.step + 1.5 + 0.5);
    equal(s.hides, 1 + 2);
    /* 5 + 1 + 15 seconds instead of 1, and 10 instead of 2. */
    equal(divided_step(&m, 100).step, divided_step(&model, 100).step + 20 + 8);
    lsi_layer_size tied[4];
    memcpy(tied, layers, sizeof(tied));
    tied[0].products = tied[0].others = 250;
    m.layer_sizes.of = tied;
    equal(divided_step(&m, 1000).gathered, 2000 + 500);
}

/*
 * Four nodes of a rank, of which two hold the weights together: they gather as
 * two nodes do. After the step each brings the other with the same half what it
 * has updated, a quarter of all.
 */
static void groups(void **state)
{
    (void)state;
    const lsi_plan_model m = layered();
    lsi_plan_run run = run_of(LS_DDP_FSDP, 4, 4);
    run.model = &m;
    run.ahead = 1;
    run.shard_over = 2;
    const lsi_plan_place place = place_of(&run);
    equal(lsi_plan_memory_of(&run).parameters, 2000);
    equal(lsi_plan_memory_of(&run).gathered, 2000);
    const lsi_plan_step two = lsi_plan_step_of(&run, &place, compute);
    equal(two.gathered, 3000);
    equal(two.rank_bytes, 3000 + 1000 + 3000); /* and three quarters of sums */
    run.shard_over = 4;
    const lsi_plan_step four = lsi_plan_step_of(&run, &place, compute);
    equal(four.gathered, 3000 + 1500);
    equal(four.rank_bytes, 4500 + 3000);
    assert_int_equal(two.collectives, four.collectives + 1);
    run.shard_over = 1; /* a copy in each node, which gathers nothing */
    equal(lsi_plan_memory_of(&run).parameters, 4000);
    equal(lsi_plan_memory_of(&run).gathered, 0);
    const lsi_plan_step one = lsi_plan_step_of(&run, &place, compute);
    equal(one.gathered, 0);
    equal(one.rank_bytes, 3000 + 3000);
}

/* The quotient of the nodes is a power of two; others are refused. */
static void fitting_groups(void **state)
{
    (void)state;
    static const struct {
        int64_t nodes, over;
        const char *fitting; /* NULL: it fits */
    } rows[] = {{1, 1, NULL},        {4, 1, NULL},          {4, 2, NULL},
                {12, 3, NULL},       {12, 6, NULL},         {3, 0, NULL},
                {4, 3, ": 1, 2, 4"}, {12, 4, ": 3, 6, 12"}, {3, 1, ": 3"},
                {2, 4, ": 1, 2"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        lsi_plan_run run = run_of(LS_DDP_FSDP, rows[i].nodes, rows[i].nodes);
        run.shard_over = rows[i].over;
        const ls_status status = lsi_plan_check(&run);
        if (rows[i].fitting == NULL)
            assert_ok(status);
        else
            assert_error(status, LS_ERR_ARGUMENT, rows[i].fitting);
    }
}

static void buckets(void **state)
{
    (void)state;
    static float data[64];
    static const size_t counts[] = {10, 3, 3, 20, 1, 1, 9};
    enum { N = 7 };
    lsi_grad_range spans[N];
    int64_t sizes[N];
    size_t at = 0;
    for (int i = 0; i < N; i++) {
        spans[i] = (lsi_grad_range){data + at, counts[i], counts[i]};
        sizes[i] = (int64_t)counts[i];
        at += counts[i];
    }
    const lsi_plan_model other = {.tensors = sizes, .n_tensors = N};
    for (uint64_t limit = 0; limit <= 200; limit++) {
        lsi_range expected[N];
        const size_t n = lsi_bucket_layout(spans, N, limit, expected);
        const lsi_plan_run run = {.model = &other, .bucket_bytes = limit};
        size_t first = 0, found = 0;
        while (first < N) {
            double bytes;
            assert_int_equal(expected[found].begin, first);
            first = lsi_plan_bucket(&run, first, &bytes);
            assert_int_equal(expected[found++].end, first);
        }
        assert_int_equal(found, n);
    }
}

/* 8 tokens: products 2 * 900 * 8, and attention 2 * 10 * 4 * 8. */
static void rates(void **state)
{
    (void)state;
    const lsi_plan_run run = run_of(LS_DDP_FLAT, 1, 1);
    equal(lsi_plan_forward_flops(&run), 14400 + 640);
    const lsi_plan_device device = {1e3, 1e4};
    const lsi_plan_compute c = lsi_plan_compute_of(&run, device, 1e3);
    equal(c.forward, 15.04 + 0.3);
    equal(c.backward, 30.08 + 0.32 + 0.6);
    equal(c.optimizer, 2.8);
}

/* Everything that can be said of 4096 ranks has its place. */
static void facts_of_many(void **state)
{
    (void)state;
    for (int i = 1; i <= LS_DDP_STRATEGY_COUNT; i++) {
        lsi_trained_plan plan = {.run = run_of((ls_ddp_strategy)i, 4096, 512),
                                 .device_bytes = 1e12,
                                 .timed = true,
                                 .compute = compute};
        plan.place = place_of(&plan.run);
        lsi_facts facts;
        assert_ok(lsi_trained_plan_account(&plan, &facts));
        assert_true(lsi_facts_get(&facts, "step_seconds") > 3);
        assert_true(isfinite(lsi_facts_get(&facts, "tokens_to_hide")));
        assert_true(lsi_facts_get(&facts, "efficiency") < 1);
        assert_true(lsi_facts_get(&facts, "fits") == 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank),  cmocka_unit_test(one_node),
        cmocka_unit_test(crossings), cmocka_unit_test(links),
        cmocka_unit_test(hidden),    cmocka_unit_test(window),
        cmocka_unit_test(gathers),   cmocka_unit_test(buckets),
        cmocka_unit_test(rates),     cmocka_unit_test(facts_of_many),
        cmocka_unit_test(groups),    cmocka_unit_test(fitting_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

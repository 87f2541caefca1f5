/*
 * Accounting against figures worked out by hand, and against a search for the
 * batch at which a step is bound by computation.
 */
#include <math.h>

#include "plan/communication.h"
#include "plan/sharding.h"
#include "testing.h"

static lsi_facts account(lsi_communication_plan plan)
{
    lsi_facts facts;
    assert_ok(lsi_communication_account(&plan, &facts));
    return facts;
}

/* Of the model of 219,848,638,464 parameters. */
static void known_figures(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double value, error; /* of rounding in the figure */
    } figures[] = {
        {"parameters", 219848638464, 0},
        {"state_bytes", 3517578215424, 0},
        {"state_gib", 3276, 0},
        {"state_gb", 3517.6, 0.05},
        {"saved_bytes_per_token", 17547264, 0},
        {"devices_exact", 43.97, 0.005},
        {"devices", 44, 0},
        {"sharded_devices_exact", 37.03, 0.005},
        {"sharded_devices", 38, 0},
        {"alpha", 2555.6, 0.05},
        {"fsdp_tokens_per_data_rank", 1277.8, 0.05},
        {"tokens_per_device", 319.4, 0.05},
        {"tokens_overall", 20444, 0.5},
        {"tensor_width", 13312, 0},
        {"tensor_holds", 1, 0},
        {"tokens_per_device_serial", 395.3, 0.05},
        {"tokens_overall_serial", 25302, 0.5},
        {"tokens_at_best_split", 61.3, 0.05},
    };
    const lsi_facts facts = account(lsi_communication_defaults());
    for (size_t i = 0; i < TEST_COUNT(figures); i++) {
        const double value = lsi_facts_get(&facts, figures[i].name);
        if (fabs(value - figures[i].value) > figures[i].error)
            fail_msg("%s is %.17g", figures[i].name, value);
    }
}

/* Seconds that a layer of B tokens computes and communicates, as defined. */
typedef struct seconds {
    double products, weights, activations;
} seconds;

static seconds layer(const lsi_communication_plan *p, double b)
{
    const double x = p->data_ranks, y = p->tensor_ranks;
    return (seconds){
        .products = 4 * b * p->d_model * p->d_ff / (x * y * p->flops),
        .weights =
            4 * p->d_model * p->d_ff / (y * p->link_bytes * p->data_links),
        .activations =
            4 * b * p->d_model / (x * p->link_bytes * p->tensor_links)};
}

/* The least whole batch at which it is not the links that bound the layer. */
static double least_batch(const lsi_communication_plan *p, bool overlapped)
{
    double low = 0, high = 1e9;
    while (high - low > 1) {
        const double middle = floor((low + high) / 2);
        const seconds s = layer(p, middle);
        const bool bound = overlapped ? s.products < s.weights
                                      : s.products < s.weights + s.activations;
        *(bound ? &low : &high) = middle;
    }
    return high;
}

static void batches_are_where_the_search_finds_them(void **state)
{
    (void)state;
    for (int i = 0; i < 64; i++) {
        lsi_communication_plan p = lsi_communication_defaults();
        p.d_model = 512 << (i % 4);
        p.d_ff = 4 * p.d_model + 512 * (i % 3);
        p.data_ranks = 1 << (i % 5);
        p.tensor_ranks = 1 + i % 3;
        p.data_links = 1 + i % 2;
        p.flops = 1e12 * (1 + i);
        const lsi_facts facts = account(p);
        const double overall = lsi_facts_get(&facts, "tokens_overall");
        assert_true(fabs(least_batch(&p, true) - overall) <= 1);
        const bool holds = lsi_facts_get(&facts, "tensor_holds") == 1;
        const seconds s = layer(&p, 1);
        assert_int_equal(holds, s.products > s.activations);
        if (!holds)
            continue;
        const double serial = lsi_facts_get(&facts, "tokens_overall_serial");
        assert_true(fabs(least_batch(&p, false) - serial) <= 1 + 1e-9 * serial);
    }
}

/* A device more than needed fits, and one fewer does not. */
static void devices_are_enough_and_no_more(void **state)
{
    (void)state;
    for (int i = 0; i <= 8; i++) {
        const double tokens = 1024.0 * i;
        lsi_communication_plan p = lsi_communication_defaults();
        p.tokens = tokens;
        const lsi_facts facts = account(p);
        const double state_bytes = lsi_facts_get(&facts, "state_bytes");
        const double saved = tokens * 126 * (16384 + 53248) * 2;
        const double n = lsi_facts_get(&facts, "sharded_devices");
        const double one = lsi_facts_get(&facts, "devices");
        assert_true(one * 80e9 >= state_bytes + saved);
        assert_true((one - 1) * 80e9 < state_bytes + saved);
        assert_true(state_bytes / n + saved / 2 + saved / (2 * n) < 95e9);
        assert_true(state_bytes / (n - 1) + saved / 2 + saved / (2 * (n - 1)) >=
                    95e9);
    }
}

/* Where half of the activations fill a device no number of them is enough. */
static void what_never_fits_has_no_number(void **state)
{
    (void)state;
    lsi_communication_plan p = lsi_communication_defaults();
    p.tokens = 20000;
    const lsi_facts facts = account(p);
    for (size_t i = 0; i < facts.n; i++)
        assert_string_not_equal(facts.all[i].name, "sharded_devices");
}

static void mistakes(void **state)
{
    (void)state;
    lsi_facts facts;
    lsi_state_plan sharding;
    lsi_communication_plan p = lsi_communication_defaults();
    p.link_bytes = 0;
    assert_error(lsi_communication_account(&p, &facts), LS_ERR_ARGUMENT,
                 "the value of link bandwidth is 0");
    assert_error(lsi_state_plan_fill(0, 2, &sharding), LS_ERR_ARGUMENT,
                 "0 parameters");
    assert_error(lsi_state_plan_fill(5, 0, &sharding), LS_ERR_ARGUMENT,
                 "0 ranks");
}

static void sharding(void **state)
{
    (void)state;
    const int64_t n = 1998235200;
    lsi_state_plan plan;
    assert_ok(lsi_state_plan_fill(n, 2, &plan));
    const lsi_state_plan_bytes *const whole = plan.bytes[LSI_STATE_PLAN_NONE];
    const lsi_state_plan_bytes *const parts = plan.bytes[LSI_STATE_PLAN_STATE];
    assert_int_equal(whole[LSI_STATE_PLAN_INIT].total, 4 * n);
    assert_int_equal(whole[LSI_STATE_PLAN_BEFORE_STEP].total, 8 * n);
    assert_int_equal(whole[LSI_STATE_PLAN_AFTER_STEP].total, 16 * n);
    assert_int_equal(parts[LSI_STATE_PLAN_AFTER_STEP].state, 4 * n);
    assert_int_equal(parts[LSI_STATE_PLAN_AFTER_STEP].total, 12 * n);
    assert_ok(lsi_state_plan_fill(10, 3, &plan));
    assert_int_equal(plan.bytes[LSI_STATE_PLAN_ZERO1][2].state, 8 * 4);
    assert_int_equal(plan.traffic[LSI_STATE_PLAN_STATE], 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_figures),
        cmocka_unit_test(batches_are_where_the_search_finds_them),
        cmocka_unit_test(devices_are_enough_and_no_more),
        cmocka_unit_test(what_never_fits_has_no_number),
        cmocka_unit_test(mistakes),
        cmocka_unit_test(sharding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

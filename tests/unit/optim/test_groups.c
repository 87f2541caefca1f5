/*
 * Parameter groups: each has options, a learning rate and a step count of its
 * own; together they are the same as one optimizer for each.
 */
#include <stdlib.h>
#include <string.h>

#include "flat.h"
#include "lockstep/profile.h"
#include "model/autograd/params.h"
#include "model/optim/optimizer.h"
#include "optim_set.h"

enum { SET = 5 };
static const int64_t lengths[SET] = {1000, 7, 333, 1, 20000};

static ls_adamw_options with(double lr, double decay, double beta1)
{
    ls_adamw_options o = ls_adamw_defaults();
    o.lr = lr;
    o.weight_decay = decay;
    o.beta1 = beta1;
    return o;
}

/* Parameters of the set by index, -1 ends. */
static size_t pick(const ls_params *params, const int *indices,
                   ls_tensor *out[SET])
{
    size_t n = 0;
    for (; indices[n] >= 0; n++)
        out[n] = ls_params_get(params, (size_t)indices[n]);
    return n;
}

static float *copy_of(const ls_params *params)
{
    size_t count;
    const float *flat = flat_of(params, &count);
    float *copy = malloc(count * sizeof *copy);
    memcpy(copy, flat, count * sizeof *copy);
    return copy;
}

static void check_same(const ls_params *params, float *expected)
{
    size_t count;
    const float *flat = flat_of(params, &count);
    assert_memory_equal(flat, expected, count * sizeof *flat);
    free(expected);
}

static const int first_part[] = {3, 0, -1}, second_part[] = {1, 4, -1};

/* Two groups, the second after two steps; parameter 2 is in none. */
static ls_optimizer *take_steps(ls_params *params)
{
    ls_tensor *group[SET];
    ls_optimizer *o = NULL;
    size_t n = pick(params, first_part, group);
    assert_ok(ls_adamw_new_with(&o, params, group, n, with(0.1, 0.1, 0.9)));
    for (uint64_t step = 0; step < 5; step++) {
        n = pick(params, second_part, group);
        if (step == 2)
            assert_ok(ls_adamw_add_group(o, group, n, with(0.01, 0, 0.5)));
        if (step == 3)
            assert_ok(ls_optimizer_set_group_lr(o, 1, 0.05));
        set_gradients(params, step);
        assert_ok(ls_optimizer_step(o, 0.5));
    }
    return o;
}

static float *one_optimizer(void)
{
    ls_params *params = make_set(lengths, SET);
    ls_optimizer *o = take_steps(params);
    assert_int_equal(ls_optimizer_groups(o), 2);
    assert_true(ls_optimizer_lr(o) == 0.1);
    assert_true(ls_optimizer_group_lr(o, 1) == 0.05);
    assert_true(ls_optimizer_group_lr(o, 2) == 0);
    float *result = copy_of(params);
    ls_optimizer_free(&o);
    ls_params_free(&params);
    return result;
}

static void groups_are_as_optimizers_of_their_own(void **state)
{
    (void)state;
    ls_params *params = make_set(lengths, SET);
    ls_tensor *group[SET];
    ls_optimizer *a = NULL, *b = NULL;
    size_t n = pick(params, first_part, group);
    assert_ok(ls_adamw_new_with(&a, params, group, n, with(0.1, 0.1, 0.9)));
    n = pick(params, second_part, group);
    assert_ok(ls_adamw_new_with(&b, params, group, n, with(0.01, 0, 0.5)));
    for (uint64_t step = 0; step < 5; step++) {
        set_gradients(params, step);
        assert_ok(ls_optimizer_step(a, 0.5));
        if (step == 3)
            assert_ok(ls_optimizer_set_lr(b, 0.05));
        if (step >= 2)
            assert_ok(ls_optimizer_step(b, 0.5));
    }
    ls_optimizer_free(&a);
    ls_optimizer_free(&b);
    check_same(params, one_optimizer());
    ls_params_free(&params);
}

/* A rank that owns odd ranges takes the steps of one that owns all. */
static void step_as_rank(const lsi_range mine[2], float *result)
{
    ls_params *params = make_set(lengths, SET);
    assert_ok(lsi_params_set_owned(params, mine, 2));
    ls_optimizer *o = take_steps(params);
    size_t count;
    for (int i = 0; i < 2; i++)
        memcpy(result + mine[i].begin, flat_of(params, &count) + mine[i].begin,
               lsi_range_size(mine[i]) * sizeof *result);
    ls_optimizer_free(&o);
    ls_params_free(&params);
}

static void shards_are_ranges(void **state)
{
    (void)state;
    enum { RANKS = 4 };
    size_t count;
    ls_params *params = make_set(lengths, SET);
    float *flat = flat_of(params, &count);
    for (size_t r = 0; r < RANKS; r++) {
        /* Rank r owns the parts r and RANKS + r of eight. */
        const lsi_range mine[] = {lsi_partition(count, 2 * RANKS, r),
                                  lsi_partition(count, 2 * RANKS, RANKS + r)};
        step_as_rank(mine, flat);
    }
    check_same(params, one_optimizer());
    ls_params_free(&params);
}

static size_t state_bytes(void)
{
    ls_memory_stats stats;
    ls_memory_of(LS_MEMORY_STATE, &stats);
    return stats.live_bytes;
}

static void a_shard_keeps_its_state_only(void **state)
{
    (void)state;
    size_t count;
    ls_params *params = make_set(lengths, SET);
    (void)flat_of(params, &count);
    const lsi_range mine = lsi_partition(count, 4, 1);
    const size_t before = state_bytes();
    ls_optimizer *o = NULL;
    assert_ok(lsi_params_set_owned(params, &mine, 1));
    assert_ok(ls_adamw_new(&o, params, ls_adamw_defaults()));
    const size_t wanted = 2 * lsi_range_size(mine) * sizeof(float);
    assert_in_range(state_bytes() - before, wanted, wanted + 2048);
    ls_optimizer_free(&o);
    assert_int_equal(state_bytes(), before);
    ls_params_free(&params);
}

static void bad_groups(void **state)
{
    (void)state;
    ls_params *params = make_set(lengths, SET);
    ls_params *others = make_set(lengths, 1);
    ls_optimizer *o = NULL;
    ls_tensor *group[] = {ls_params_get(params, 0), ls_params_get(params, 1)};
    ls_tensor *stranger[] = {ls_params_get(others, 0)};
    ls_tensor *twice[] = {group[1], group[1]};
    const ls_adamw_options options = ls_adamw_defaults();
    assert_ok(ls_adamw_new_with(&o, params, group, 1, options));
    assert_error(ls_adamw_add_group(o, group, 2, options), LS_ERR_ARGUMENT,
                 "'a' is in parameter group 0 already");
    assert_error(ls_adamw_add_group(o, NULL, 0, options), LS_ERR_ARGUMENT,
                 "'a' is in parameter group 0 already");
    assert_error(ls_adamw_add_group(o, stranger, 1, options), LS_ERR_ARGUMENT,
                 "of the optimizer's set");
    assert_error(ls_adamw_add_group(o, twice, 2, options), LS_ERR_ARGUMENT,
                 "'b' is twice");
    assert_error(ls_sgd_add_group(o, &group[1], 1, (ls_sgd_options){.lr = 1}),
                 LS_ERR_ARGUMENT, "a group of sgd cannot be added");
    assert_error(ls_optimizer_set_group_lr(o, 1, 1), LS_ERR_ARGUMENT,
                 "there is no group 1");
    assert_int_equal(ls_optimizer_groups(o), 1);
    assert_ok(ls_adamw_add_group(o, &group[1], 1, options));
    ls_optimizer_free(&o);
    ls_params_free(&params);
    ls_params_free(&others);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_are_as_optimizers_of_their_own),
        cmocka_unit_test(shards_are_ranges),
        cmocka_unit_test(a_shard_keeps_its_state_only),
        cmocka_unit_test(bad_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * Parameter groups: each has separate options, learning rate and step count;
 * together they are the same as one optimizer for each.
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

/* The options of the two groups. */
static const ls_adamw_options first_options = {
    .lr = 0.1, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.1};
static const ls_adamw_options second_options = {
    .lr = 0.01, .beta1 = 0.5, .beta2 = 0.999, .eps = 1e-8};

/* Parameters of the set by index, -1 ends. */
static size_t pick(ls_params *params, const int *indices, ls_tensor *out[SET])
{
    size_t n = 0;
    for (; indices[n] >= 0; n++)
        out[n] = ls_params_get(params, (size_t)indices[n]);
    return n;
}

static float *copy_of(ls_params *params)
{
    size_t count;
    const float *flat = flat_of(params, &count);
    float *copy = malloc(count * sizeof *copy);
    memcpy(copy, flat, count * sizeof *copy);
    return copy;
}

static void check_same(ls_params *params, float *expected)
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
    assert_ok(ls_optimizer_new(&o, params,
                               &(ls_optimizer_spec){.adamw = &first_options,
                                                    .tensors = group,
                                                    .n = n}));
    for (uint64_t step = 0; step < 5; step++) {
        n = pick(params, second_part, group);
        if (step == 2)
            assert_ok(ls_optimizer_add_group(
                o, &(ls_optimizer_spec){
                       .adamw = &second_options, .tensors = group, .n = n}));
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
    assert_ok(ls_optimizer_new(&a, params,
                               &(ls_optimizer_spec){.adamw = &first_options,
                                                    .tensors = group,
                                                    .n = n}));
    n = pick(params, second_part, group);
    assert_ok(ls_optimizer_new(&b, params,
                               &(ls_optimizer_spec){.adamw = &second_options,
                                                    .tensors = group,
                                                    .n = n}));
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
    assert_ok(ls_optimizer_new(&o, params, NULL));
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
    const ls_adamw_options options = LS_ADAMW_OPTIONS_INIT;
    assert_ok(ls_optimizer_new(
        &o, params,
        &(ls_optimizer_spec){.adamw = &options, .tensors = group, .n = 1}));
    assert_error(
        ls_optimizer_add_group(
            o,
            &(ls_optimizer_spec){.adamw = &options, .tensors = group, .n = 2}),
        LS_ERR_ARGUMENT, "'a' is already in parameter group 0");
    assert_error(
        ls_optimizer_add_group(
            o,
            &(ls_optimizer_spec){.adamw = &options, .tensors = NULL, .n = 0}),
        LS_ERR_ARGUMENT, "'a' is already in parameter group 0");
    assert_error(
        ls_optimizer_add_group(o, &(ls_optimizer_spec){.adamw = &options,
                                                       .tensors = stranger,
                                                       .n = 1}),
        LS_ERR_ARGUMENT, "of the optimizer's parameter set");
    assert_error(
        ls_optimizer_add_group(
            o,
            &(ls_optimizer_spec){.adamw = &options, .tensors = twice, .n = 2}),
        LS_ERR_ARGUMENT, "'b' is listed twice");
    assert_error(ls_optimizer_add_group(
                     o, &(ls_optimizer_spec){.sgd = &(ls_sgd_options){.lr = 1},
                                             .tensors = &group[1],
                                             .n = 1}),
                 LS_ERR_ARGUMENT, "cannot add a parameter group of kind sgd");
    const ls_optimizer_spec two = {.sgd = &(ls_sgd_options){.lr = 1},
                                   .adamw = &options};
    assert_error(ls_optimizer_add_group(o, &two), LS_ERR_ARGUMENT,
                 "options of adamw are set");
    const ls_optimizer_spec other = {.kind = LS_OPTIMIZER_LION,
                                     .adamw = &options};
    assert_error(ls_optimizer_add_group(o, &other), LS_ERR_ARGUMENT,
                 "the optimizer is lion, but options of adamw");
    const ls_optimizer_spec none = {.kind = (ls_optimizer_kind)9};
    assert_error(ls_optimizer_add_group(o, &none), LS_ERR_ARGUMENT,
                 "ls_optimizer_spec.kind is 9");
    assert_error(ls_optimizer_set_group_lr(o, 1, 1), LS_ERR_ARGUMENT,
                 "group 1 does not exist; groups in the optimizer: 1");
    assert_int_equal(ls_optimizer_groups(o), 1);
    assert_ok(ls_optimizer_add_group(
        o,
        &(ls_optimizer_spec){.adamw = &options, .tensors = &group[1], .n = 1}));
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

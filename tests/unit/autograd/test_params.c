/* Parameter sets: order, layout, initial values, shared gradients. */
#include <math.h>

#include "base/memory.h"
#include "model/autograd/params.h"
#include "model/tensor/tensor.h"
#include "testing.h"
#include "unit/comm/ranks.h"

static const ls_init zero = {LS_INIT_CONSTANT, 0.0, 0.0};
static const ls_init one = {LS_INIT_CONSTANT, 1.0, 0.0};

static ls_params *new_set(void)
{
    ls_params *params = NULL;
    assert_ok(ls_params_new(&params));
    return params;
}

static ls_tensor *add(ls_params *params, const char *name, int64_t n,
                      ls_init init)
{
    ls_tensor *tensor = NULL;
    assert_ok(ls_params_add(params, name, 1, &n, init, &tensor));
    return tensor;
}

/* ---- layout -------------------------------------------------------------- */

static void flat_and_in_reverse_order(void **state)
{
    (void)state;
    ls_params *params = new_set();
    ls_tensor *p[3] = {add(params, "first", 5, one),
                       add(params, "second", 16, one),
                       add(params, "third", 17, one)};
    assert_ok(ls_params_allocate(params, NULL, 1));
    size_t count = 0, grad_count = 0;
    const float *flat = ls_params_flat(params, &count);
    const float *grad = ls_params_flat_grad(params, &grad_count);
    assert_int_equal(count, 32 + 16 + 16);
    assert_int_equal(grad_count, count);
    assert_int_equal(ls_params_offset(params, 2), 0);
    assert_int_equal(ls_params_offset(params, 1), 32);
    assert_int_equal(ls_params_offset(params, 0), 48);
    float sum = 0.0F;
    for (size_t i = 0; i < count; i++)
        sum += flat[i];
    assert_true(sum == 5 + 16 + 17); /* all else is padding of zeros */
    for (size_t i = 0; i < 3; i++) {
        const size_t offset = ls_params_offset(params, i);
        assert_ptr_equal(tensor_data(p[i]), flat + offset);
        assert_ptr_equal(tensor_data(ls_grad(p[i])), grad + offset);
        assert_int_equal((uintptr_t)(flat + offset) % 64, 0);
        assert_int_equal((uintptr_t)(grad + offset) % 64, 0);
    }
    assert_ptr_equal(lsi_params_grad_extra(params), grad + count);
    lsi_params_grad_extra(params)[LSI_GRAD_EXTRA - 1] = 1.0F;
    ls_params_free(&params);
    assert_null(params);
}

static void lookup_by_index(void **state)
{
    (void)state;
    ls_params *params = new_set();
    ls_tensor *a = add(params, "a", 3, zero), *b = add(params, "b", 4, zero);
    ls_tensor *buffer = NULL;
    assert_ok(ls_params_add_buffer(params, "running", 1, (const int64_t[]){2},
                                   one, &buffer));
    assert_int_equal(ls_params_count(params), 2);
    assert_int_equal(ls_params_buffer_count(params), 1);
    assert_int_equal(ls_params_numel(params), 7);
    assert_ptr_equal(ls_params_get(params, 0), a);
    assert_ptr_equal(ls_params_get(params, 1), b);
    assert_null(ls_params_get(params, 2));
    assert_string_equal(ls_params_name(params, 1), "b");
    assert_null(ls_params_name(params, 2));
    assert_ptr_equal(ls_params_buffer(params, 0), buffer);
    assert_string_equal(ls_params_buffer_name(params, 0), "running");
    assert_null(ls_params_buffer(params, 1));
    void *none;
    assert_error(ls_tensor_map(a, &none), LS_ERR_STATE, "has no memory yet");
    assert_ok(ls_params_allocate(params, NULL, 1));
    assert_true(((const float *)tensor_data(buffer))[1] == 1.0F);
    assert_null(ls_grad(buffer));
    assert_null(ls_grad(NULL));
    ls_params_free(&params);
}

static void frozen_parameters_lie_apart(void **state)
{
    (void)state;
    ls_params *params = new_set();
    ls_tensor *a = add(params, "a", 3, one), *b = add(params, "b", 4, one);
    assert_ok(ls_params_set_trainable(params, a, false));
    assert_ok(ls_params_allocate(params, NULL, 1));
    size_t count = 0;
    const float *flat = ls_params_flat(params, &count);
    assert_int_equal(count, 16);
    assert_ptr_equal(tensor_data(b), flat);
    assert_int_equal(ls_params_offset(params, 0), SIZE_MAX);
    assert_true(((const float *)tensor_data(a))[2] == 1.0F);
    assert_null(ls_grad(a));
    assert_non_null(ls_grad(b));
    ls_params_free(&params);
}

static void empty_sets_and_empty_parameters(void **state)
{
    (void)state;
    size_t count = 7;
    ls_params *params = new_set();
    assert_ok(ls_params_allocate(params, NULL, 1));
    ls_params_flat(params, &count);
    assert_int_equal(count, 0);
    ls_params_free(&params);
    params = new_set();
    add(params, "none", 0, one);
    assert_ok(ls_params_allocate(params, NULL, 1));
    ls_params_zero_grad(params);
    ls_params_finish_grad(params);
    ls_params_free(&params);
    ls_params_free(&params);
    ls_params_free(NULL);
}

static void memory_is_counted_by_what_it_is_for(void **state)
{
    (void)state;
    ls_memory_stats before[2], after[2];
    ls_memory_of(LS_MEMORY_PARAMETERS, &before[0]);
    ls_memory_of(LS_MEMORY_GRADIENTS, &before[1]);
    ls_params *params = new_set();
    add(params, "a", 1000, zero);
    assert_ok(ls_params_allocate(params, NULL, 1));
    ls_memory_of(LS_MEMORY_PARAMETERS, &after[0]);
    ls_memory_of(LS_MEMORY_GRADIENTS, &after[1]);
    assert_int_equal(after[0].live_bytes - before[0].live_bytes, 4 * 1008);
    assert_int_equal(after[1].live_bytes - before[1].live_bytes,
                     4 * (1008 + LSI_GRAD_EXTRA));
    ls_params_free(&params);
    ls_memory_of(LS_MEMORY_PARAMETERS, &after[0]);
    ls_memory_of(LS_MEMORY_GRADIENTS, &after[1]);
    assert_int_equal(after[0].live_bytes, before[0].live_bytes);
    assert_int_equal(after[1].live_bytes, before[1].live_bytes);
}

static void allocation_that_fails_can_be_repeated(void **state)
{
    (void)state;
    ls_memory_stats now;
    ls_params *params = new_set();
    ls_tensor *a = add(params, "a", 100000, one);
    ls_memory_total(&now);
    ls_memory_set_budget(now.live_bytes + 600000); /* no room for gradients */
    assert_error(ls_params_allocate(params, NULL, 1), LS_ERR_BUDGET,
                 "gradients");
    void *none;
    assert_error(ls_tensor_map(a, &none), LS_ERR_STATE, "has no memory yet");
    ls_memory_set_budget(0);
    assert_ok(ls_params_allocate(params, NULL, 1));
    assert_non_null(ls_grad(a));
    ls_params_free(&params);
}

static void bad_definitions(void **state)
{
    (void)state;
    const int64_t n = 2;
    ls_params *params = new_set(), *other = new_set();
    ls_tensor *a = add(params, "a", 2, zero), *t = NULL;
    const ls_init unknown = {(ls_init_kind)9, 0.0, 0.0};
    assert_error(ls_params_add(params, "a", 1, &n, zero, &t), LS_ERR_ARGUMENT,
                 "'a'");
    assert_error(ls_params_add_buffer(params, "a", 1, &n, zero, &t),
                 LS_ERR_ARGUMENT, "'a'");
    assert_error(ls_params_add(params, "", 1, &n, zero, &t), LS_ERR_ARGUMENT,
                 "name");
    assert_error(ls_params_add(params, "b", -1, &n, zero, &t), LS_ERR_ARGUMENT,
                 "-1");
    assert_error(ls_params_add(params, "b", 1, &n, unknown, &t),
                 LS_ERR_ARGUMENT, "9");
    assert_error(ls_params_set_trainable(other, a, false), LS_ERR_ARGUMENT,
                 "not a parameter");
    assert_int_equal(ls_params_count(params), 1);
    assert_ok(ls_params_allocate(params, NULL, 1));
    assert_error(ls_params_allocate(params, NULL, 1), LS_ERR_STATE,
                 "already allocated");
    assert_error(ls_params_add(params, "b", 1, &n, zero, &t), LS_ERR_STATE,
                 "'b'");
    assert_error(ls_params_set_trainable(params, a, false), LS_ERR_STATE,
                 "'a'");
    assert_null(t);
    ls_params_free(&params);
    ls_params_free(&other);
}

/* ---- initial values ------------------------------------------------------ */

enum { N = 40000 };

/* Mean and standard deviation of N values. */
static void moments(const float *x, double *mean, double *deviation)
{
    double sum = 0.0, squares = 0.0;
    for (int i = 0; i < N; i++)
        sum += (double)x[i];
    *mean = sum / N;
    for (int i = 0; i < N; i++)
        squares += ((double)x[i] - *mean) * ((double)x[i] - *mean);
    *deviation = sqrt(squares / N);
}

/*
 * The sample mean of N values lies within 5 deviation / sqrt(N) of the mean
 * but for 6 in 10^7 seeds, and this seed is fixed; the sample deviation's
 * spread is at most deviation sqrt((kurtosis - 1) / 4N), kurtosis being at
 * most 3 here.
 */
static void check_distribution(ls_init init, double deviation, double low,
                               double high)
{
    ls_params *params = new_set();
    const ls_tensor *t = add(params, "t", N, init);
    assert_ok(ls_params_allocate(params, NULL, 11));
    const float *x = tensor_data(t);
    double mean = 0.0, got = 0.0;
    moments(x, &mean, &got);
    const double middle =
        init.kind == LS_INIT_UNIFORM ? (init.a + init.b) / 2.0 : init.a;
    assert_true(fabs(mean - middle) <= 5.0 * deviation / sqrt(N));
    assert_true(fabs(got - deviation) <= 5.0 * deviation / sqrt(2.0 * N));
    for (int i = 0; i < N; i++)
        assert_true((double)x[i] >= low && (double)x[i] <= high);
    ls_params_free(&params);
}

static void distributions(void **state)
{
    (void)state;
    const ls_init uniform = {LS_INIT_UNIFORM, -0.5, 0.25};
    const ls_init normal = {LS_INIT_NORMAL, 2.0, 0.1};
    const ls_init cut = {LS_INIT_TRUNCATED_NORMAL, -1.0, 0.5};
    check_distribution(uniform, 0.75 / sqrt(12.0), -0.5,
                       nextafterf(0.25F, 0.0F));
    check_distribution(normal, 0.1, -INFINITY, INFINITY);
    /* Variance of a normal cut at c: 1 - 2 c phi(c) / (2 Phi(c) - 1). */
    const double phi = exp(-4.5) / sqrt(2.0 * M_PI);
    const double variance = 1.0 - 6.0 * phi / erf(3.0 / sqrt(2.0));
    check_distribution(cut, 0.5 * sqrt(variance), -2.5, 0.5);
}

/* A normal value above three deviations exists among N; a cut one does not. */
static void only_the_cut_normal_is_cut(void **state)
{
    (void)state;
    ls_params *params = new_set();
    const ls_init normal = {LS_INIT_NORMAL, 0.0, 1.0};
    const ls_tensor *t = add(params, "t", N, normal);
    assert_ok(ls_params_allocate(params, NULL, 3));
    const float *x = tensor_data(t);
    int outside = 0;
    for (int i = 0; i < N; i++)
        outside += fabsf(x[i]) > 3.0F;
    assert_in_range(outside, 60, 160); /* 108 expected, deviation 10 */
    ls_params_free(&params);
}

static void values_depend_on_seed_and_index_only(void **state)
{
    (void)state;
    const ls_init init = {LS_INIT_NORMAL, 0.0, 1.0};
    ls_params *a = new_set(), *b = new_set(), *c = new_set();
    const ls_tensor *x = NULL, *y = NULL, *z = NULL;
    add(a, "other", 3, init);
    x = add(a, "x", 100, init);
    add(b, "quite another", 70, zero);
    y = add(b, "y", 50, init);
    add(c, "other", 3, init);
    z = add(c, "z", 100, init);
    assert_ok(ls_params_allocate(a, NULL, 5));
    assert_ok(ls_params_allocate(b, NULL, 5));
    assert_ok(ls_params_allocate(c, NULL, 6));
    assert_memory_equal(tensor_data(x), tensor_data(y), 50 * sizeof(float));
    assert_memory_not_equal(tensor_data(x), tensor_data(z), 50 * sizeof(float));
    assert_memory_not_equal(tensor_data(x), tensor_data(ls_params_get(a, 0)),
                            3 * sizeof(float));
    ls_params_free(&a);
    ls_params_free(&b);
    ls_params_free(&c);
}

/* erf(erfinv(u)) = u to rounding: erf is accurate to 1e-16 or so. */
static void erfinv_inverts_erf(void **state)
{
    (void)state;
    for (int i = -998; i <= 998; i++) {
        const double u = i / 1000.0;
        assert_true(fabs(erf(lsi_erfinv(u)) - u) <= 1e-15);
    }
    assert_true(lsi_erfinv(0.0) == 0.0);
}

/* ---- gradients that ranks share ------------------------------------------ */

/* Each rank writes its gradients; the others read them in place. */
static void share(ls_group *group, void *argument)
{
    (void)argument;
    const int rank = ls_group_rank(group), size = ls_group_size(group);
    const int64_t n = 33;
    ls_params *params = NULL;
    size_t count = 0;
    CHECK_OK(ls_params_new(&params));
    CHECK_OK(ls_params_add(params, "a", 1, &n, one, NULL));
    CHECK_OK(ls_params_allocate(params, group, 1));
    float *grad = ls_params_flat_grad(params, &count);
    CHECK(count == 48);
    for (size_t i = 0; i < count + LSI_GRAD_EXTRA; i++) {
        CHECK(grad[i] == 0.0F);
        grad[i] = (float)(100 * rank) + (float)i;
    }
    CHECK_OK(ls_barrier(group));
    for (int peer = 0; peer < size; peer++) {
        const float *theirs = ls_shared_peer(group, grad, peer);
        CHECK(theirs != NULL);
        for (size_t i = 0; i < count + LSI_GRAD_EXTRA; i++)
            CHECK(theirs[i] == (float)(100 * peer) + (float)i);
    }
    CHECK_OK(ls_barrier(group));
    ls_params_free(&params);
}

static void gradients_in_shared_memory(void **state)
{
    (void)state;
    ls_memory_stats before, after;
    ls_memory_of(LS_MEMORY_GRADIENTS, &before);
    run_threads(1, share, NULL);
    run_threads(3, share, NULL);
    run_processes(2, share, NULL);
    ls_memory_of(LS_MEMORY_GRADIENTS, &after);
    assert_int_equal(after.live_bytes, before.live_bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flat_and_in_reverse_order),
        cmocka_unit_test(lookup_by_index),
        cmocka_unit_test(frozen_parameters_lie_apart),
        cmocka_unit_test(empty_sets_and_empty_parameters),
        cmocka_unit_test(memory_is_counted_by_what_it_is_for),
        cmocka_unit_test(allocation_that_fails_can_be_repeated),
        cmocka_unit_test(bad_definitions),
        cmocka_unit_test(distributions),
        cmocka_unit_test(only_the_cut_normal_is_cut),
        cmocka_unit_test(values_depend_on_seed_and_index_only),
        cmocka_unit_test(erfinv_inverts_erf),
        cmocka_unit_test(gradients_in_shared_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * Every reducing algorithm folds, except those with a separate order. The
 * bits are those of a loop written from the definition, for any number
 * of ranks, transport and memory, and for lengths of one chunk and of several.
 * Groups that span nodes fold so if they are deterministic; test_node_orders.c
 * has the others.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../unit/comm/nodes.h"
#include "comm/coll/algorithm.h"
#include "numbers.h"
#include "selection.h"

/*
 * Less than a vector, more than a cell holds, and as much as a window of 2
 * ranks takes in several chunks.
 */
static const size_t counts[] = {5, 8500, 300007};

enum {
    COUNTS = sizeof(counts) / sizeof(counts[0]),
    ALL_RANKS = 8, /* each number up to here */
    MOST_RANKS = 16,
    SPARSE = 61 /* of many elements, those that are not zero */
};

typedef struct test_case {
    const lsi_algorithm *algorithm;
    ls_dtype dtype;
    ls_reduce_op redop;
    size_t count;
    bool shared;
} test_case;

static const struct kind {
    ls_dtype dtype;
    ls_reduce_op redop;
} kinds[] = {{LS_F32, LS_REDUCE_SUM},  {LS_F32, LS_REDUCE_AVG},
             {LS_F32, LS_REDUCE_PROD}, {LS_F64, LS_REDUCE_SUM},
             {LS_F64, LS_REDUCE_PROD}, {LS_F16, LS_REDUCE_SUM},
             {LS_BF16, LS_REDUCE_AVG}, {LS_BF16, LS_REDUCE_PROD}};

static bool is_zero(const test_case *test, size_t i)
{
    return test->count > 1000 && i % SPARSE != 0;
}

/* Of sizes that differ, so that another order is another result. */
static double value(const test_case *test, int rank, size_t i)
{
    uint64_t mix = (i * 8 + (size_t)rank + 1) * 0x9e3779b97f4a7c15u;
    mix = (mix ^ mix >> 29) * 0xbf58476d1ce4e5b9u;
    const double fraction = (double)(mix >> 40) * 0x1p-24 + 0.5;
    const double sign = mix & 1 ? 1 : -1;
    const double scale = (double)(1 << (mix >> 1 & 7)) / 16;
    return test->redop == LS_REDUCE_PROD ? sign * fraction
                                         : sign * fraction * scale;
}

static double round_to_sums(ls_dtype dtype, double x)
{
    return dtype == LS_F64 ? x : (double)(float)x;
}

/* The definition, in the type of the sums, which double rounds to exactly. */
static void expect(const test_case *test, int size, size_t i, void *out)
{
    double v[MOST_RANKS];
    for (int r = 0; r < size; r++) {
        number_store(&v[r], 0, test->dtype, value(test, r, i));
        v[r] = number_load(&v[r], 0, test->dtype);
    }
    for (int n = size; n > 1;) {
        int h = 1;
        while (2 * h < n)
            h *= 2;
        for (int r = 0; r + h < n; r++)
            v[r] = round_to_sums(test->dtype, test->redop == LS_REDUCE_PROD
                                                  ? v[r] * v[r + h]
                                                  : v[r] + v[r + h]);
        n = h;
    }
    if (test->redop == LS_REDUCE_AVG)
        v[0] = round_to_sums(test->dtype,
                             v[0] * round_to_sums(test->dtype, 1.0 / size));
    number_store(out, 0, test->dtype, v[0]);
}

static void check(const test_case *test, int size, const void *got,
                  size_t first, size_t n)
{
    const size_t item = ls_dtype_size(test->dtype);
    for (size_t i = 0; i < n; i++) {
        unsigned char wanted[8];
        if (is_zero(test, first + i))
            continue;
        expect(test, size, first + i, wanted);
        if (memcmp((const char *)got + i * item, wanted, item) != 0) {
            fprintf(stderr, "%s %s %s %s count %zu of %d ranks: bits at %zu\n",
                    lsi_operation_name(test->algorithm->operation),
                    test->algorithm->name, ls_dtype_name(test->dtype),
                    ls_reduce_op_name(test->redop), test->count, size,
                    first + i);
            abort();
        }
    }
}

static void *buffer(ls_group *group, bool shared, size_t bytes)
{
    void *data = NULL;
    if (shared)
        CHECK_OK(ls_shared_alloc(group, bytes, &data));
    else
        CHECK((data = malloc(bytes)) != NULL);
    return data;
}

static void release(ls_group *group, bool shared, void *data)
{
    if (shared)
        CHECK_OK(ls_shared_free(group, &data));
    else
        free(data);
}

static void check_ran(const ls_group *group, const test_case *test,
                      size_t count)
{
    check_selected(
        group, test->algorithm,
        (conditions){count * ls_dtype_size(test->dtype), test->shared, false});
}

static void reduce(ls_group *group, const test_case *test, const void *send,
                   void *recv)
{
    const int rank = ls_group_rank(group), size = ls_group_size(group);
    const size_t block = test->count / (size_t)size;
    switch (test->algorithm->operation) {
    case LSI_OP_REDUCE:
        CHECK_OK(ls_reduce(group, send, recv, test->count, test->dtype,
                           test->redop, size - 1));
        check_ran(group, test, test->count);
        if (rank == size - 1)
            check(test, size, recv, 0, test->count);
        break;
    case LSI_OP_REDUCE_SCATTER:
        CHECK_OK(ls_reduce_scatter(group, send, recv, block, test->dtype,
                                   test->redop));
        check_ran(group, test, block);
        check(test, size, recv, (size_t)rank * block, block);
        break;
    default:
        CHECK_OK(ls_all_reduce(group, send, recv, test->count, test->dtype,
                               test->redop));
        check_ran(group, test, test->count);
        check(test, size, recv, 0, test->count);
    }
}

static void run_case(ls_group *group, const test_case *test)
{
    const size_t bytes = test->count * ls_dtype_size(test->dtype);
    void *const send = buffer(group, test->shared, bytes);
    void *const recv = buffer(group, test->shared, bytes);
    memset(send, 0, bytes);
    for (size_t i = 0; i < test->count; i++)
        if (!is_zero(test, i))
            number_store(send, i, test->dtype,
                         value(test, ls_group_rank(group), i));
    reduce(group, test, send, recv);
    release(group, test->shared, recv);
    release(group, test->shared, send);
}

static void run_algorithm(ls_group *group, const lsi_algorithm *algorithm)
{
    select_algorithm(group, algorithm);
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
        for (int c = 0; c < COUNTS; c++) {
            /* One long reduction of each algorithm will do. */
            if (c == COUNTS - 1 && k > 0)
                continue;
            run_case(group,
                     &(test_case){algorithm, kinds[k].dtype, kinds[k].redop,
                                  counts[c], (k + (size_t)c) % 2});
        }
}

static void run_rows(ls_group *group, void *argument)
{
    const lsi_algorithm *algorithm;
    (void)argument;
    for (int i = 0; (algorithm = lsi_algorithm_at(i)) != NULL; i++) {
        const lsi_operation operation = algorithm->operation;
        if ((operation == LSI_OP_ALL_REDUCE || operation == LSI_OP_REDUCE ||
             operation == LSI_OP_REDUCE_SCATTER) &&
            !algorithm->own_order)
            run_algorithm(group, algorithm);
    }
}

static void reductions_fold_on_threads(void **state)
{
    (void)state;
    for (int size = 1; size <= ALL_RANKS; size++)
        run_threads(size, run_rows, NULL);
    run_threads(12, run_rows, NULL);
    run_threads(MOST_RANKS, run_rows, NULL);
}

static void reductions_fold_on_processes(void **state)
{
    (void)state;
    for (int size = 2; size <= 5; size++)
        run_processes(size, run_rows, NULL);
}

static void reductions_fold_between_nodes(void **state)
{
    (void)state;
    assert_int_equal(setenv("LOCKSTEP_DETERMINISTIC", "1", 1), 0);
    run_nodes((const int[]){1, 1}, 2, run_rows, NULL);
    run_nodes((const int[]){2, 2}, 2, run_rows, NULL);
    run_nodes((const int[]){2, 1, 3}, 3, run_rows, NULL);
    assert_int_equal(unsetenv("LOCKSTEP_DETERMINISTIC"), 0);
}

/* ---- deterministic groups ------------------------------------------------ */

static void refuses_own_orders(ls_group *group, void *argument)
{
    float x[3] = {1, 2, 3};
    (void)argument;
    CHECK(ls_group_select(group, "all_reduce:0-inf:ring") == LS_ERR_ARGUMENT);
    CHECK(strstr(ls_last_error(), "--deterministic") != NULL);
    CHECK_OK(ls_group_select(group, "all_reduce:0-inf:ring|halving"));
    CHECK(strcmp(group->select->row[0].candidates[0]->name, "halving") == 0);
    CHECK_OK(ls_all_reduce(group, x, x, 3, LS_F32, LS_REDUCE_SUM));
}

static void deterministic_groups_refuse_own_orders(void **state)
{
    ls_group *group = NULL;
    (void)state;
    assert_int_equal(setenv("LOCKSTEP_DETERMINISTIC", "1", 1), 0);
    run_threads(3, refuses_own_orders, NULL);
    run_processes(3, refuses_own_orders, NULL);
    assert_int_equal(setenv("LOCKSTEP_DETERMINISTIC", "yes", 1), 0);
    assert_int_equal(ls_group_open_threads(&group, 1), LS_ERR_ARGUMENT);
    assert_non_null(strstr(ls_last_error(), "LOCKSTEP_DETERMINISTIC"));
    assert_int_equal(unsetenv("LOCKSTEP_DETERMINISTIC"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reductions_fold_on_threads),
        cmocka_unit_test(reductions_fold_on_processes),
        cmocka_unit_test(reductions_fold_between_nodes),
        cmocka_unit_test(deterministic_groups_refuse_own_orders),
    };
    return cmocka_run_group_tests_name("orders", tests, NULL, NULL);
}

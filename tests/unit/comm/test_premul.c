/*
 * Sums of values that each rank multiplies by a different factor, compared with
 * float64, by every algorithm that users can select.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../../conformance/numbers.h"
#include "nodes.h"

enum { MOST = 9001, MOST_RANKS = 8 };

static const size_t counts[] = {0, 1, 257, MOST};
static const ls_dtype dtypes[] = {LS_F32, LS_F64, LS_F16, LS_BF16};

/* A number that every type can hold. */
static double value(int rank, size_t i)
{
    return (double)((int)((i * 37 + (size_t)rank * 11) % 251) - 125) / 64;
}

static double factor_of(int rank)
{
    return 0.3 + rank * 0.45;
}

/* The sum, and in *size that of the absolute products. */
static double exact(int ranks, size_t i, double *size)
{
    double sum = 0;
    *size = 0;
    for (int r = 0; r < ranks; r++) {
        const double product = factor_of(r) * value(r, i);
        sum += product;
        *size += product < 0 ? -product : product;
    }
    return sum;
}

/*
 * The factor, each product and each of the sums are rounded where sums are, and
 * the result in its type; below the normal numbers of f16 that is 2^-25.
 */
static void check(const void *got, ls_dtype dtype, int ranks, size_t first,
                  size_t count)
{
    for (size_t i = 0; i < count; i++) {
        double size;
        const double wanted = exact(ranks, first + i, &size);
        const double x = number_load(got, i, dtype);
        const double bound =
            1.01 * ((ranks + 2) * size * rounding_of_sums(dtype) +
                    (wanted < 0 ? -wanted : wanted) * rounding_of(dtype)) +
            (dtype == LS_F16 ? 0x1p-25 : 0);
        CHECK(x - wanted <= bound && wanted - x <= bound);
    }
}

static void fill(void *data, ls_dtype dtype, int rank, size_t n)
{
    for (size_t i = 0; i < n; i++)
        number_store(data, i, dtype, value(rank, i));
}

static void reduce(ls_group *group, ls_dtype dtype, size_t count, bool in_place)
{
    const int size = ls_group_size(group), rank = ls_group_rank(group);
    ls_request *request = NULL;
    double *send = malloc(MOST * sizeof(*send));
    double *recv = malloc(MOST * sizeof(*recv));
    CHECK(send != NULL && recv != NULL);
    fill(send, dtype, rank, count);
    CHECK_OK(ls_iall_reduce_premul(group, send, in_place ? send : recv, count,
                                   dtype, factor_of(rank), &request));
    CHECK_OK(ls_wait(request));
    check(in_place ? send : recv, dtype, size, 0, count);
    ls_request_free(&request);
    free(send);
    free(recv);
}

static void scatter(ls_group *group, ls_dtype dtype, size_t count,
                    bool in_place)
{
    const int size = ls_group_size(group), rank = ls_group_rank(group);
    const size_t n = count * (size_t)size, own = count * (size_t)rank;
    ls_request *request = NULL;
    unsigned char *send = malloc(n * sizeof(double) + 1);
    unsigned char *recv = malloc(count * sizeof(double) + 1);
    CHECK(send != NULL && recv != NULL);
    unsigned char *to = in_place ? send + own * ls_dtype_size(dtype) : recv;
    fill(send, dtype, rank, n);
    CHECK_OK(ls_ireduce_scatter_premul(group, send, to, count, dtype,
                                       factor_of(rank), &request));
    CHECK_OK(ls_wait(request));
    check(to, dtype, size, own, count);
    ls_request_free(&request);
    free(send);
    free(recv);
}

static void both(ls_group *group)
{
    for (int d = 0; d < 4; d++)
        for (int c = 0; c < 4; c++)
            for (int in_place = 0; in_place < 2; in_place++) {
                reduce(group, dtypes[d], counts[c], in_place);
                scatter(group, dtypes[d], counts[c], in_place);
            }
}

/* The algorithms of one operation, each at all sizes that it serves. */
static void by_each(ls_group *group, lsi_operation operation)
{
    const lsi_algorithm *a;
    for (int i = 0; (a = lsi_algorithm_at(i)) != NULL; i++) {
        char line[96];
        if (a->operation != operation)
            continue;
        snprintf(line, sizeof(line),
                 a->in_cells ? "%s:0-32k:%s;32k-inf:%s" : "%s:0-inf:%s|%s",
                 lsi_operation_name(operation), a->name,
                 fallback_of(group, operation));
        CHECK_OK(ls_group_select(group, line));
        both(group);
    }
}

static void all_algorithms(ls_group *group, void *argument)
{
    (void)argument;
    both(group);
    by_each(group, LSI_OP_ALL_REDUCE);
    by_each(group, LSI_OP_REDUCE_SCATTER);
}

static void products_are_added(void **state)
{
    static const int sizes[] = {1, 2, 3, 5, 8}, two_and_one[] = {2, 1};
    (void)state;
    for (int i = 0; i < 5; i++)
        run_threads(sizes[i], all_algorithms, NULL);
    run_processes(3, all_algorithms, NULL);
    run_nodes(two_and_one, 2, all_algorithms, NULL);
}

/* Products that are no bf16. */
static void rounded_once(ls_group *group, void *argument)
{
    const int rank = ls_group_rank(group);
    uint16_t x;
    ls_request *request = NULL;
    (void)argument;
    /* 1 + 3 * 2^-9 rounds up; of rounded products it would be 1. */
    number_store(&x, 0, LS_BF16, 1);
    CHECK_OK(ls_iall_reduce_premul(group, &x, &x, 1, LS_BF16,
                                   rank == 0 ? 1 + 0x1p-9 : 0x1p-8, &request));
    CHECK_OK(ls_wait(request));
    CHECK(number_load(&x, 0, LS_BF16) == 1 + 0x1p-7);
    ls_request_free(&request);
}

static void half_types_are_rounded_once(void **state)
{
    (void)state;
    run_threads(2, rounded_once, NULL);
}

static void disagree(ls_group *group, void *argument)
{
    const int rank = ls_group_rank(group);
    float x[2] = {0};
    ls_request *request = NULL;
    ls_status status;
    (void)argument;
    int32_t whole = 0;
    CHECK(ls_iall_reduce_premul(group, &whole, &whole, 1, LS_I32, 2,
                                &request) == LS_ERR_UNSUPPORTED);
    CHECK(ls_all_reduce(group, x, x, 1, LS_F32, (ls_reduce_op)16) ==
          LS_ERR_ARGUMENT);
    /* One plain sum of f32, one of bf16 that is computed in f32. */
    status =
        rank == 0
            ? ls_iall_reduce(group, x, x, 2, LS_F32, LS_REDUCE_SUM, &request)
            : ls_iall_reduce_premul(group, x, x, 2, LS_BF16, 2, &request);
    if (status == LS_OK)
        status = ls_wait(request);
    CHECK(status == LS_ERR_MISMATCH);
    CHECK(strstr(ls_last_error(), "2 bf16 (premul_sum)") != NULL);
    ls_request_free(&request);
}

static void mixing_them_is_an_error(void **state)
{
    (void)state;
    run_threads(2, disagree, NULL);
    run_processes(2, disagree, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_added),
        cmocka_unit_test(half_types_are_rounded_once),
        cmocka_unit_test(mixing_them_is_an_error),
    };
    return cmocka_run_group_tests_name("premul", tests, NULL, NULL);
}

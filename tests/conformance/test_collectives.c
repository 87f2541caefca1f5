/*
 * Every row of algorithms.def that a user can select, on 1 to 8 ranks, with
 * every type, reduction, kind of count, and in and out of place, against
 * float64. A new algorithm is tested because it has a row.
 *
 * Two kinds of input: small whole numbers, whose sums and products are exact in
 * every type, so that nothing but the exact result will do; and fractions,
 * whose result may differ from float64 by one rounding for each operation.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../unit/comm/ranks.h"
#include "comm/algo/algorithm.h"
#include "numbers.h"

static const int rank_counts[] = {1, 2, 3, 4, 5, 8};
/* Nothing, one, odd, a prime beyond a line, beyond a small message. */
static const size_t counts[] = {0, 1, 15, 257, 6007};

enum {
    RANK_COUNTS = sizeof(rank_counts) / sizeof(rank_counts[0]),
    COUNTS = sizeof(counts) / sizeof(counts[0]),
    MOST_RANKS = 8,
    GUARD = 16 /* bytes behind a buffer that must not change */
};

typedef struct test_case {
    const lsi_algorithm *algorithm;
    ls_dtype dtype;
    ls_reduce_op redop;
    size_t count;
    bool in_place, fractions;
} test_case;

static bool reduces(lsi_operation operation)
{
    return operation == LSI_OP_ALL_REDUCE || operation == LSI_OP_REDUCE ||
           operation == LSI_OP_REDUCE_SCATTER;
}

/* What a rank holds at i. */
static double value(const test_case *test, int rank, size_t i)
{
    const size_t mix = i * 7 + (size_t)rank * 5 + 3;
    if (test->fractions) {
        uint16_t half; /* a number that every type can hold */
        double x = ((double)(mix * 2654435761u % 4096) - 2048) / 257;
        if (test->redop == LS_PROD)
            x = 1 + x / 16; /* or eight of them are no f16 */
        number_store(&half, 0, LS_BF16, x);
        number_store(&half, 0, LS_F16, number_load(&half, 0, LS_BF16));
        return number_load(&half, 0, LS_F16);
    }
    if (test->redop == LS_PROD)
        return mix % 3 == 0 ? 2 : 1;
    return (double)(mix % 14);
}

static double expected(const test_case *test, int size, size_t i)
{
    double values[MOST_RANKS];
    for (int r = 0; r < size; r++)
        values[r] = value(test, r, i);
    return reduce_numbers(values, size, test->redop);
}

/*
 * n operations, each rounded once in the type of the sums, then the result in
 * its own type; an average also rounds 1/n and the product.
 */
static double allowed(const test_case *test, int size, size_t i)
{
    double magnitude = test->redop == LS_PROD ? 1 : 0;
    for (int r = 0; r < size; r++) {
        const double x = value(test, r, i);
        const double absolute = x < 0 ? -x : x;
        if (test->redop == LS_PROD)
            magnitude *= absolute;
        else
            magnitude += absolute;
    }
    const bool average = test->redop == LS_AVG;
    const bool rounds = test->fractions || average;
    if (!rounds || is_integer(test->dtype) || test->redop == LS_MIN ||
        test->redop == LS_MAX)
        return 0;
    const double exact = expected(test, size, i);
    return 1.01 * ((size + (average ? 2 : 0)) * magnitude *
                       rounding_of_sums(test->dtype) +
                   (exact < 0 ? -exact : exact) * rounding_of(test->dtype));
}

/* ---- buffers ------------------------------------------------------------- */

static unsigned char *filled(const test_case *test, int rank, size_t elements,
                             size_t room)
{
    const size_t item = ls_dtype_size(test->dtype);
    unsigned char *data = malloc(room * item + GUARD);
    CHECK(data != NULL);
    memset(data, 0xa5, room * item + GUARD);
    for (size_t i = 0; i < elements; i++)
        number_store(data, i, test->dtype, value(test, rank, i));
    return data;
}

static void check_guard(const test_case *test, const unsigned char *data,
                        size_t room)
{
    for (size_t i = 0; i < GUARD; i++)
        CHECK(data[room * ls_dtype_size(test->dtype) + i] == 0xa5);
}

static void check_reduced(const test_case *test, int size, const void *got,
                          size_t first, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const double x = number_load(got, i, test->dtype);
        const double wanted = expected(test, size, first + i);
        const double off = x > wanted ? x - wanted : wanted - x;
        if (!(off <= allowed(test, size, first + i))) {
            fprintf(stderr,
                    "%s %s %s %s count %zu ranks %d in place %d: element %zu "
                    "is %.9g, not %.9g (allowed %g)\n",
                    lsi_operation_name(test->algorithm->operation),
                    test->algorithm->name, ls_dtype_name(test->dtype),
                    ls_reduce_op_name(test->redop), test->count, size,
                    test->in_place, first + i, x, wanted,
                    allowed(test, size, first + i));
            abort();
        }
    }
}

/* Every rank must end with the same bits. */
static void check_same(ls_group *group, const unsigned char *data, size_t bytes)
{
    uint64_t hash = 0xcbf29ce484222325u, all[MOST_RANKS];
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ data[i]) * 0x100000001b3u;
    CHECK_OK(ls_all_gather(group, &hash, all, 1, LS_I64));
    for (int r = 0; r < ls_group_size(group); r++)
        CHECK(all[r] == hash);
}

/* ---- reductions ---------------------------------------------------------- */

static void run_reduction(ls_group *group, const test_case *test)
{
    const int size = ls_group_size(group), rank = ls_group_rank(group);
    const lsi_operation operation = test->algorithm->operation;
    const bool scatters = operation == LSI_OP_REDUCE_SCATTER;
    const size_t item = ls_dtype_size(test->dtype), count = test->count;
    const size_t elements = scatters ? count * (size_t)size : count;
    const int root = (int)(count % (size_t)size);
    unsigned char *send = filled(test, rank, elements, elements);
    unsigned char *recv = filled(test, rank, 0, count), *to = recv;
    if (test->in_place)
        to = scatters ? send + (size_t)rank * count * item : send;
    if (operation == LSI_OP_ALL_REDUCE)
        CHECK_OK(
            ls_all_reduce(group, send, to, count, test->dtype, test->redop));
    else if (scatters)
        CHECK_OK(ls_reduce_scatter(group, send, to, count, test->dtype,
                                   test->redop));
    else
        CHECK_OK(ls_reduce(group, send, rank == root ? to : NULL, count,
                           test->dtype, test->redop, root));
    if (operation != LSI_OP_REDUCE || rank == root)
        check_reduced(test, size, to, scatters ? (size_t)rank * count : 0,
                      count);
    if (operation == LSI_OP_ALL_REDUCE)
        check_same(group, to, count * item);
    check_guard(test, send, elements);
    check_guard(test, recv, count);
    free(send);
    free(recv);
}

/* ---- movements ----------------------------------------------------------- */

static void check_value(const test_case *test, const void *data, size_t at,
                        int rank, size_t i)
{
    CHECK(number_load(data, at, test->dtype) == value(test, rank, i));
}

static void run_broadcast(ls_group *group, const test_case *test)
{
    const int root = (int)(test->count % (size_t)ls_group_size(group));
    unsigned char *data =
        filled(test, ls_group_rank(group), test->count, test->count);
    CHECK_OK(ls_broadcast(group, data, test->count, test->dtype, root));
    for (size_t i = 0; i < test->count; i++)
        check_value(test, data, i, root, i);
    check_guard(test, data, test->count);
    free(data);
}

static void run_gather(ls_group *group, const test_case *test)
{
    const int size = ls_group_size(group), rank = ls_group_rank(group);
    const int root = (int)(test->count % (size_t)size);
    const size_t count = test->count, n = count * (size_t)size;
    const size_t own = (size_t)rank * count * ls_dtype_size(test->dtype);
    const bool to_all = test->algorithm->operation == LSI_OP_ALL_GATHER;
    unsigned char *send = filled(test, rank, count, count);
    unsigned char *recv = filled(test, rank, 0, n), *from = send;
    if (test->in_place && (to_all || rank == root)) {
        from = recv + own;
        memcpy(from, send, count * ls_dtype_size(test->dtype));
    }
    if (to_all)
        CHECK_OK(ls_all_gather(group, from, recv, count, test->dtype));
    else
        CHECK_OK(ls_gather(group, from, rank == root ? recv : NULL, count,
                           test->dtype, root));
    for (size_t i = 0; i < n && (to_all || rank == root); i++)
        check_value(test, recv, i, (int)(i / count), i % count);
    check_guard(test, recv, n);
    free(send);
    free(recv);
}

static void run_scatter(ls_group *group, const test_case *test)
{
    const int size = ls_group_size(group), rank = ls_group_rank(group);
    const int root = (int)(test->count % (size_t)size);
    const size_t count = test->count, n = count * (size_t)size;
    const size_t own = (size_t)rank * count;
    unsigned char *send = filled(test, rank, n, n);
    unsigned char *recv = filled(test, rank, 0, count), *to = recv;
    if (test->in_place && rank == root)
        to = send + own * ls_dtype_size(test->dtype);
    CHECK_OK(ls_scatter(group, rank == root ? send : NULL, to, count,
                        test->dtype, root));
    for (size_t i = 0; i < count; i++)
        check_value(test, to, i, root, own + i);
    check_guard(test, recv, count);
    free(send);
    free(recv);
}

static void run_all_to_all(ls_group *group, const test_case *test)
{
    const int size = ls_group_size(group), rank = ls_group_rank(group);
    const size_t count = test->count, n = count * (size_t)size;
    unsigned char *send = filled(test, rank, n, n);
    unsigned char *recv = filled(test, rank, 0, n);
    unsigned char *to = test->in_place ? send : recv;
    CHECK_OK(ls_all_to_all(group, send, to, count, test->dtype));
    for (size_t i = 0; i < n; i++)
        check_value(test, to, i, (int)(i / count),
                    (size_t)rank * count + i % count);
    check_guard(test, to, n);
    free(send);
    free(recv);
}

static void run_movement(ls_group *group, const test_case *test)
{
    switch (test->algorithm->operation) {
    case LSI_OP_BROADCAST:
        run_broadcast(group, test);
        break;
    case LSI_OP_ALL_GATHER:
    case LSI_OP_GATHER:
        run_gather(group, test);
        break;
    case LSI_OP_SCATTER:
        run_scatter(group, test);
        break;
    default:
        run_all_to_all(group, test);
        break;
    }
}

/* ---- the matrix ---------------------------------------------------------- */

/* All counts, both places and both kinds of number. */
static void run_cases(ls_group *group, test_case test)
{
    for (int c = 0; c < COUNTS * 4; c++) {
        test.count = counts[c / 4];
        test.in_place = c & 1;
        test.fractions = c & 2;
        if (test.fractions && is_integer(test.dtype))
            continue;
        if (c / 4 == COUNTS - 1 && test.redop != LS_SUM)
            continue; /* length and reduction do not mix */
        if (reduces(test.algorithm->operation))
            run_reduction(group, &test);
        else
            run_movement(group, &test);
    }
}

static void run_types(ls_group *group, const lsi_algorithm *algorithm)
{
    for (int d = 0; d < LS_DTYPE_COUNT; d++)
        for (int o = 0; o < LS_REDUCE_OP_COUNT; o++) {
            const test_case test = {algorithm, (ls_dtype)d, (ls_reduce_op)o,
                                    0,         false,       false};
            if (o != LS_SUM && !reduces(algorithm->operation))
                continue;
            if (o == LS_AVG && is_integer((ls_dtype)d))
                continue;
            run_cases(group, test);
        }
}

/* Falls back to `staged` where the algorithm has its limits. */
static void select_only(ls_group *group, const lsi_algorithm *algorithm)
{
    const char *operation = lsi_operation_name(algorithm->operation);
    char line[128];
    if (algorithm->in_cells)
        snprintf(line, sizeof(line), "%s:0-32k:%s;32k-inf:staged", operation,
                 algorithm->name);
    else
        snprintf(line, sizeof(line), "%s:0-inf:%s|staged", operation,
                 algorithm->name);
    CHECK_OK(ls_group_select(group, line));
}

static void run_rows(ls_group *group, void *argument)
{
    (void)argument;
    const lsi_algorithm *algorithm;
    for (int i = 0; (algorithm = lsi_algorithm_at(i)) != NULL; i++) {
        if (algorithm->operation == LSI_OP_BARRIER ||
            algorithm->operation > LSI_OP_ALL_TO_ALL)
            continue;
        select_only(group, algorithm);
        run_types(group, algorithm);
    }
}

static void every_row_conforms_on_threads(void **state)
{
    (void)state;
    for (int n = 0; n < RANK_COUNTS; n++)
        run_threads(rank_counts[n], run_rows, NULL);
}

static void every_row_conforms_on_processes(void **state)
{
    (void)state;
    run_processes(3, run_rows, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_conforms_on_threads),
        cmocka_unit_test(every_row_conforms_on_processes),
    };
    return cmocka_run_group_tests_name("conformance", tests, NULL, NULL);
}

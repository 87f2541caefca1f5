/*
 * open-mpi/ompi#10521: the minimum of 64-bit integers was computed as of
 * unsigned ones, so that -1 was the largest. Here every type has its smallest
 * and largest number, numbers around 0 and, if it has them, negative zeros.
 */
#include "testing.h"

#include <math.h>
#include <stdlib.h>

#include "../conformance/numbers.h"
#include "../unit/comm/ranks.h"
#include "rounds.h"

enum { MOST = 2000, SIZE = 3 };

static size_t rounds = DEFAULT_ROUNDS;

/* The ends of a type, as float64; those of 64 bits as far as it is exact. */
static const struct {
    ls_dtype dtype;
    double low, high;
} types[] = {
    {LS_I8, INT8_MIN, INT8_MAX},
    {LS_U8, 0, UINT8_MAX},
    {LS_I32, INT32_MIN, INT32_MAX},
    {LS_I64, -0x1p63, 0x1p62},
    {LS_F16, -65504, 65504},
    {LS_BF16, -0x1.fep127, 0x1.fep127},
    {LS_F32, -0x1.fffffep127, 0x1p127},
    {LS_F64, -0x1p1023, 0x1p1023},
};

static double value(size_t type, int rank, size_t i, size_t round)
{
    const double low = types[type].low, high = types[type].high;
    const double numbers[] = {-1, low, high, 0, 1, -100, 100, -2};
    const size_t mix = i * 5 + (size_t)rank * 3 + round + i / 8;
    const double x = numbers[mix % TEST_COUNT(numbers)];
    return x < low ? 0 : x; /* of unsigned types */
}

static void check(const void *got, size_t type, size_t first, size_t count,
                  ls_reduce_op op, size_t round)
{
    for (size_t i = 0; i < count; i++) {
        double all[SIZE];
        for (int r = 0; r < SIZE; r++)
            all[r] = value(type, r, first + i, round);
        CHECK(number_load(got, i, types[type].dtype) ==
              reduce_numbers(all, SIZE, op));
    }
}

static void reduce(ls_group *group, void *send, void *recv, size_t round)
{
    const size_t type = round % TEST_COUNT(types);
    const ls_dtype dtype = types[type].dtype;
    const ls_reduce_op op = round % 16 < 8 ? LS_REDUCE_MIN : LS_REDUCE_MAX;
    const size_t count = round * 7919 % (round % 5 == 0 ? MOST : 70);
    const int rank = ls_group_rank(group);
    for (size_t i = 0; i < SIZE * count; i++)
        number_store(send, i, dtype, value(type, rank, i, round));
    CHECK_OK(ls_all_reduce(group, send, recv, count, dtype, op));
    check(recv, type, 0, count, op, round);
    CHECK_OK(
        ls_reduce(group, send, rank == 1 ? recv : NULL, count, dtype, op, 1));
    if (rank == 1)
        check(recv, type, 0, count, op, round);
    CHECK_OK(ls_reduce_scatter(group, send, recv, count, dtype, op));
    check(recv, type, (size_t)rank * count, count, op, round);
}

static void repeat(ls_group *group, void *unused)
{
    void *const send = malloc(SIZE * MOST * sizeof(int64_t));
    void *const recv = malloc(MOST * sizeof(int64_t));
    (void)unused;
    CHECK(send != NULL && recv != NULL);
    for (size_t i = 0; i < rounds; i++)
        reduce(group, send, recv, i);
    free(send);
    free(recv);
}

static void negative_numbers_are_less(void **state)
{
    (void)state;
    run_processes(SIZE, repeat, NULL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(negative_numbers_are_less),
    };
    rounds = rounds_of(argc, argv);
    return cmocka_run_group_tests_name("ompi_10521", tests, NULL, NULL);
}

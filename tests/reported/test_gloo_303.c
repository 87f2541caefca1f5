/*
 * pytorch/gloo#303: the reduce-scatter of {1..6, 11..16} on two ranks is
 * {2, 4, .. 12} on rank 0 and {22, 24, .. 32} on rank 1. Gloo gave other sums,
 * and left the send buffer changed. One round is that call, and one of random
 * length on each number of ranks, out of place and in place.
 */
#include "testing.h"

#include <stdlib.h>

#include "../unit/comm/ranks.h"
#include "rounds.h"

enum { REPORTED = 6, MOST = 4000, MOST_RANKS = 5 };

static size_t rounds = DEFAULT_ROUNDS;

static void as_reported(ls_group *group)
{
    static const int32_t wanted[2][REPORTED] = {{2, 4, 6, 8, 10, 12},
                                                {22, 24, 26, 28, 30, 32}};
    int32_t send[] = {1, 2, 3, 4, 5, 6, 11, 12, 13, 14, 15, 16};
    int32_t before[2 * REPORTED], recv[REPORTED] = {0};
    const int rank = ls_group_rank(group);
    memcpy(before, send, sizeof(send));
    CHECK_OK(
        ls_reduce_scatter(group, send, recv, REPORTED, LS_I32, LS_REDUCE_SUM));
    CHECK(memcmp(recv, wanted[rank], sizeof(recv)) == 0);
    CHECK(memcmp(send, before, sizeof(send)) == 0);
    CHECK_OK(ls_reduce_scatter(group, send, send + rank * REPORTED, REPORTED,
                               LS_I32, LS_REDUCE_SUM));
    CHECK(memcmp(send + rank * REPORTED, wanted[rank], sizeof(recv)) == 0);
}

static int32_t value(int rank, size_t i, size_t round)
{
    return (int32_t)((i * 37 + (size_t)rank * 101 + round * 13) % 2003) - 1000;
}

/* Checks the sums, and that nothing else has changed. */
static void check(const int32_t *got, size_t count, int rank, int size,
                  size_t round)
{
    for (size_t i = 0; i < count; i++) {
        int32_t sum = 0;
        for (int r = 0; r < size; r++)
            sum += value(r, (size_t)rank * count + i, round);
        CHECK(got[i] == sum);
    }
}

static void of_any_length(ls_group *group, int32_t *send, int32_t *recv,
                          size_t round)
{
    const int size = ls_group_size(group), rank = ls_group_rank(group);
    const size_t count = round * 7919 % (round % 3 == 0 ? MOST : 40);
    const size_t all = count * (size_t)size;
    for (size_t i = 0; i < all; i++)
        send[i] = value(rank, i, round);
    CHECK_OK(
        ls_reduce_scatter(group, send, recv, count, LS_I32, LS_REDUCE_SUM));
    check(recv, count, rank, size, round);
    for (size_t i = 0; i < all; i++)
        CHECK(send[i] == value(rank, i, round));
    int32_t *const own = send + (size_t)rank * count;
    CHECK_OK(ls_reduce_scatter(group, send, own, count, LS_I32, LS_REDUCE_SUM));
    check(own, count, rank, size, round);
}

static void repeat(ls_group *group, void *unused)
{
    int32_t *const send = malloc(MOST_RANKS * MOST * sizeof(*send));
    int32_t *const recv = malloc(MOST * sizeof(*recv));
    (void)unused;
    CHECK(send != NULL && recv != NULL);
    for (size_t i = 0; i < rounds; i++) {
        if (ls_group_size(group) == 2)
            as_reported(group);
        of_any_length(group, send, recv, i);
    }
    free(send);
    free(recv);
}

static void reduce_scatter_adds_every_block(void **state)
{
    (void)state;
    for (int size = 2; size <= MOST_RANKS; size++)
        run_processes(size, repeat, NULL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reduce_scatter_adds_every_block),
    };
    rounds = rounds_of(argc, argv);
    return cmocka_run_group_tests_name("gloo_303", tests, NULL, NULL);
}

/*
 * meta-pytorch/torchcomms PR #477: a reduce-scatter had a count for each rank.
 * The rank that received a block contributed zeros to it, because its receive
 * buffer was reduced instead of its data. Here each rank adds another decimal
 * digit, so that a sum shows which rank is missing.
 */
#include "testing.h"

#include <stdlib.h>

#include "../unit/comm/ranks.h"
#include "rounds.h"

enum { MOST = 3000, MOST_RANKS = 5 };

static size_t rounds = DEFAULT_ROUNDS;

/* The digit of a rank: never 0, and at most 9. */
static int64_t digit(int rank, size_t i, size_t round)
{
    int64_t value = (int64_t)((i * 7 + (size_t)rank * 5 + round) % 9) + 1;
    for (int r = 0; r < rank; r++)
        value *= 10;
    return value;
}

/* Elements that a rank receives: 0 for some, and uneven. */
static size_t part(int rank, size_t round)
{
    const size_t mix = round * 31 + (size_t)rank * 17;
    return mix % 5 == 0 ? 0 : mix * 7919 % (round % 4 == 0 ? MOST : 30);
}

static void check(const int64_t *got, size_t first, size_t count, int size,
                  size_t round)
{
    for (size_t i = 0; i < count; i++) {
        int64_t wanted = 0;
        for (int r = 0; r < size; r++)
            wanted += digit(r, first + i, round);
        CHECK(got[i] == wanted);
    }
}

static void scatter(ls_group *group, int64_t *send, int64_t *recv, size_t round)
{
    const int size = ls_group_size(group), rank = ls_group_rank(group);
    size_t counts[MOST_RANKS], first = 0, all = 0;
    for (int r = 0; r < size; r++) {
        counts[r] = part(r, round);
        first += r < rank ? counts[r] : 0;
        all += counts[r];
    }
    for (size_t i = 0; i < all; i++)
        send[i] = digit(rank, i, round);
    memset(recv, 0, MOST * sizeof(*recv)); /* as the output of the report */
    CHECK_OK(
        ls_reduce_scatterv(group, send, recv, counts, LS_I64, LS_REDUCE_SUM));
    check(recv, first, counts[rank], size, round);
    CHECK_OK(ls_reduce_scatterv(group, send, send + first, counts, LS_I64,
                                LS_REDUCE_SUM));
    check(send + first, first, counts[rank], size, round);
}

static void repeat(ls_group *group, void *unused)
{
    int64_t *const send = malloc(MOST_RANKS * MOST * sizeof(*send));
    int64_t *const recv = malloc(MOST * sizeof(*recv));
    (void)unused;
    CHECK(send != NULL && recv != NULL);
    for (size_t i = 0; i < rounds; i++)
        scatter(group, send, recv, i);
    free(send);
    free(recv);
}

static void the_receiver_contributes(void **state)
{
    (void)state;
    for (int size = 1; size <= MOST_RANKS; size++)
        run_processes(size, repeat, NULL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_receiver_contributes),
    };
    rounds = rounds_of(argc, argv);
    return cmocka_run_group_tests_name("torchcomms_477", tests, NULL, NULL);
}

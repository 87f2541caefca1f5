/*
 * jax-ml/jax#40830: 24 devices of one process were 12 groups of 2. They called
 * a reduce-scatter in place, with 4 MiB of float64 for each rank. The end of
 * the chunk of rank 0 was wrong: rank 1 had overwritten its buffer before it
 * was sent. One round is one call of each group.
 */
#include "testing.h"

#include <pthread.h>
#include <stdlib.h>

#include "../unit/comm/ranks.h"
#include "rounds.h"

enum {
    GROUPS = 12,
    RANKS = 2,
    COUNT = (4 << 20) / sizeof(double),
    TOTAL = RANKS * COUNT,
    SHIFTS = 1009 /* rounds until data repeats */
};

static size_t rounds = DEFAULT_ROUNDS;

/*
 * The data of a round are TOTAL elements of a longer array, from a place that
 * changes. So filling and checking are copies and comparisons of memory.
 */
static double *data[RANKS], *sums;

typedef struct player {
    pthread_t thread;
    ls_group *group;
} player;

static void prepare(void)
{
    const size_t n = TOTAL + SHIFTS;
    sums = calloc(n, sizeof(*sums));
    CHECK(sums != NULL);
    for (int r = 0; r < RANKS; r++) {
        data[r] = malloc(n * sizeof(*data[r]));
        CHECK(data[r] != NULL);
        for (size_t i = 0; i < n; i++) {
            data[r][i] = (double)((i * 31 + (size_t)r * 7919) % 65521);
            sums[i] += data[r][i];
        }
    }
}

static void check(const double *got, const double *wanted, int rank)
{
    if (memcmp(got, wanted, COUNT * sizeof(*got)) == 0)
        return;
    for (size_t i = 0; i < COUNT; i++)
        if (got[i] != wanted[i])
            fprintf(stderr, "rank %d, element %zu: %g instead of %g\n", rank, i,
                    got[i], wanted[i]);
    CHECK(!"the sums are right");
}

static void *play(void *context)
{
    player *const self = context;
    const int rank = ls_group_rank(self->group);
    double *const buffer = malloc(TOTAL * sizeof(*buffer));
    CHECK(buffer != NULL);
    double *const own = buffer + (size_t)rank * COUNT;
    for (size_t i = 0; i < rounds; i++) {
        const size_t shift = i % SHIFTS;
        memcpy(buffer, data[rank] + shift, TOTAL * sizeof(*buffer));
        CHECK_OK(ls_reduce_scatter(self->group, buffer, own, COUNT, LS_F64,
                                   LS_REDUCE_SUM));
        check(own, sums + shift + (size_t)rank * COUNT, rank);
    }
    free(buffer);
    ls_group_close(&self->group);
    return NULL;
}

static void twelve_groups_in_one_process(void **state)
{
    player players[GROUPS * RANKS];
    (void)state;
    prepare();
    for (int g = 0; g < GROUPS; g++) {
        ls_group *groups[RANKS];
        CHECK_OK(ls_group_open_threads(groups, RANKS));
        for (int r = 0; r < RANKS; r++)
            players[g * RANKS + r].group = groups[r];
    }
    for (int p = 0; p < GROUPS * RANKS; p++)
        CHECK(pthread_create(&players[p].thread, NULL, play, &players[p]) == 0);
    for (int p = 0; p < GROUPS * RANKS; p++)
        pthread_join(players[p].thread, NULL);
    for (int r = 0; r < RANKS; r++)
        free(data[r]);
    free(sums);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(twelve_groups_in_one_process),
    };
    rounds = rounds_of(argc, argv);
    return cmocka_run_group_tests_name("jax_40830", tests, NULL, NULL);
}

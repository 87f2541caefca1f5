/*
 * ml-explore/mlx#4475: all-reduces of gradients hung after some dozens of calls
 * on 3 ranks. There were three chunks of 34, 34 and 20 MB, made of 195, 195 and
 * 114 arrays. Here one thread of each rank reduces a chunk in a round. Another
 * one reduces the arrays of which chunks consist, one by one, in a second
 * group.
 */
#include "testing.h"

#include <pthread.h>
#include <stdlib.h>

#include "../unit/comm/ranks.h"
#include "rounds.h"

enum { RANKS = 3, CHUNKS = 3, TAIL = 280000, ARRAYS_A_ROUND = 12 };

static size_t rounds = DEFAULT_ROUNDS;

/* Arrays of one size, and a last one that is larger. */
static const struct {
    size_t arrays, elements;
} chunks[CHUNKS] = {{195, 33820000 / sizeof(float)},
                    {195, 33550000 / sizeof(float)},
                    {114, 19920000 / sizeof(float)}};

/*
 * The data of a call are elements of a longer array, from a place that changes.
 * So filling and checking are copies and comparisons of memory. Sums of these
 * small whole numbers are exact.
 */
enum { SHIFTS = 1009, LONGEST = 33820000 / sizeof(float) + SHIFTS };
static float *values[RANKS], *sums;

static void prepare(void)
{
    sums = calloc(LONGEST, sizeof(*sums));
    CHECK(sums != NULL);
    for (int r = 0; r < RANKS; r++) {
        values[r] = malloc(LONGEST * sizeof(*values[r]));
        CHECK(values[r] != NULL);
        for (size_t i = 0; i < LONGEST; i++) {
            values[r][i] = (float)((i * 31 + (size_t)r * 7919) % 65521);
            sums[i] += values[r][i];
        }
    }
}

/* A thread of a rank. */
typedef struct player {
    pthread_t thread;
    ls_group *group;
    float *data;
} player;

static void add_up(const player *p, size_t count, size_t round)
{
    const size_t bytes = count * sizeof(float), shift = round % SHIFTS;
    memcpy(p->data, values[ls_group_rank(p->group)] + shift, bytes);
    CHECK_OK(ls_all_reduce(p->group, p->data, p->data, count, LS_F32,
                           LS_REDUCE_SUM));
    CHECK(memcmp(p->data, sums + shift, bytes) == 0);
}

static void *add_chunks(void *context)
{
    const player *const p = context;
    for (size_t i = 0; i < rounds; i++)
        add_up(p, chunks[i % CHUNKS].elements, i);
    return NULL;
}

/* The number of elements of an array of the tree. */
static size_t elements_of(size_t array)
{
    size_t chunk = 0;
    while (array >= chunks[chunk].arrays)
        array -= chunks[chunk++].arrays;
    const size_t others = chunks[chunk].arrays - 1;
    const size_t tail = TAIL / sizeof(float);
    const size_t base = (chunks[chunk].elements - tail) / others;
    return array < others ? base : chunks[chunk].elements - base * others;
}

static void *add_arrays(void *context)
{
    const player *const p = context;
    for (size_t i = 0; i < rounds * ARRAYS_A_ROUND; i++)
        add_up(p, elements_of(i % 504), i);
    return NULL;
}

static void two_threads(ls_group *group, void *unused)
{
    static void *(*const work[])(void *) = {add_chunks, add_arrays};
    player players[2];
    (void)unused;
    for (int i = 0; i < 2; i++) {
        players[i].data = malloc(chunks[0].elements * sizeof(float));
        CHECK(players[i].data != NULL);
        CHECK_OK(ls_group_split(group, 0, 0, &players[i].group));
        CHECK_OK(ls_group_set_timeout(players[i].group, 60));
    }
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&players[i].thread, NULL, work[i], &players[i]) ==
              0);
    for (int i = 0; i < 2; i++) {
        pthread_join(players[i].thread, NULL);
        ls_group_close(&players[i].group);
        free(players[i].data);
    }
}

static void gradients_from_two_threads(void **state)
{
    (void)state;
    prepare();
    run_processes(RANKS, two_threads, NULL);
    for (int r = 0; r < RANKS; r++)
        free(values[r]);
    free(sums);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_from_two_threads),
    };
    rounds = rounds_of(argc, argv);
    return cmocka_run_group_tests_name("mlx_4475", tests, NULL, NULL);
}

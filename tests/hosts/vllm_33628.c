/*
 * vllm-project/vllm#33628: a group had one rank of each of two hosts. It took
 * them for ranks of one host, and opened shared memory that only one of them
 * had. This is the program of a rank (test_vllm_33628.py): it divides the ranks
 * into groups within and across hosts, and the members of each compare who
 * shares memory with whom. The argument is the number of rounds.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../unit/comm/ranks.h"
#include "lockstep/comm.h"

enum { MOST_RANKS = 8, NAME = 64, COUNT = 1000 };

/* The findings of a rank about the members of a group. */
typedef struct view {
    char host[NAME];
    int32_t shares[MOST_RANKS]; /* whether it has mapped that rank's memory */
    int32_t local_size;
} view;

static view look(ls_group *group, void *shared)
{
    view v = {.local_size = ls_group_local_size(group)};
    CHECK(gethostname(v.host, sizeof(v.host)) == 0);
    for (int r = 0; r < ls_group_size(group); r++)
        v.shares[r] = ls_shared_peer(group, shared, r) != NULL;
    return v;
}

/* All members share memory with those of their host, and with no others. */
static void check_views(const view *views, int size)
{
    for (int i = 0; i < size; i++) {
        int local = 0;
        for (int j = 0; j < size; j++) {
            const bool same = strcmp(views[i].host, views[j].host) == 0;
            CHECK(views[i].shares[j] == same);
            local += same;
        }
        CHECK(views[i].local_size == local);
    }
}

static void check_sums(ls_group *group, int64_t *data, int round)
{
    const int size = ls_group_size(group), rank = ls_group_rank(group);
    for (int i = 0; i < COUNT; i++)
        data[i] = (int64_t)(rank + 1) * (i + round);
    CHECK(ls_all_reduce(group, data, data, COUNT, LS_I64, LS_REDUCE_SUM) ==
          LS_OK);
    for (int i = 0; i < COUNT; i++)
        CHECK(data[i] == (int64_t)size * (size + 1) / 2 * (i + round));
}

/* After a barrier a rank reads what peers of its host have written. */
static void check_memory(ls_group *group, int32_t *shared, int round)
{
    *shared = 1000 * ls_group_rank(group) + round;
    CHECK(ls_barrier(group) == LS_OK);
    for (int r = 0; r < ls_group_size(group); r++) {
        const int32_t *const theirs = ls_shared_peer(group, shared, r);
        CHECK(theirs == NULL || *theirs == 1000 * r + round);
    }
    CHECK(ls_barrier(group) == LS_OK);
}

static void check_group(ls_group *group, int round)
{
    const int size = ls_group_size(group);
    static int64_t private[COUNT];
    view views[MOST_RANKS];
    void *shared = NULL;
    CHECK(ls_shared_alloc(group, COUNT * sizeof(int64_t), &shared) == LS_OK);
    const view mine = look(group, shared);
    CHECK(ls_all_gather(group, &mine, views, sizeof(view), LS_U8) == LS_OK);
    check_views(views, size);
    check_memory(group, shared, round);
    check_sums(group, private, round);
    check_sums(group, shared, round);
    CHECK(ls_shared_free(group, &shared) == LS_OK);
}

int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? atoi(argv[1]) : 1000;
    ls_group *all = NULL;
    CHECK(ls_group_from_env(&all) == LS_OK);
    const int rank = ls_group_rank(all), size = ls_group_size(all);
    CHECK(size <= MOST_RANKS);
    for (int i = 0; i < rounds; i++) {
        /* Every second rank; halves; all, in the opposite order. */
        const int colors[] = {rank % 2, rank / 2, 0};
        ls_group *part = NULL;
        CHECK(ls_group_split(all, colors[i % 3],
                             i % 3 == 2 ? size - rank : rank, &part) == LS_OK);
        check_group(part, i);
        ls_group_close(&part);
    }
    ls_group_close(&all);
    return 0;
}

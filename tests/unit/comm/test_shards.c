/*
 * Reductions of which every rank keeps its shard: against exact sums, by every
 * algorithm, for ranges that begin and end anywhere in shards.
 */
#include "testing.h"

#include <stdio.h>

#include "comm/api/request.h"
#include "ranks.h"

enum { TOTAL = 40000 };

static float value(int rank, size_t i)
{
    return (float)(i % 89) + (float)(rank * 7);
}

static void check(ls_group *group, float *data, lsi_shards shards, size_t count)
{
    const int rank = ls_group_rank(group), size = ls_group_size(group);
    ls_request *request = NULL;
    CHECK_OK(lsi_reduce_shards_plan(group, (lsi_buffer){data, count, LS_F32},
                                    shards, &request));
    for (int repeat = 0; repeat < 2; repeat++) {
        ls_group_counters before, after;
        for (size_t i = 0; i < count; i++)
            data[i] = value(rank, shards.first + i);
        ls_group_get_counters(group, &before);
        CHECK_OK(ls_start(request));
        CHECK_OK(ls_wait(request));
        ls_group_get_counters(group, &after);
        CHECK(after.collectives == before.collectives + 1);
        for (size_t i = 0; i < count; i++) {
            const size_t at = shards.first + i;
            float expected = value(rank, at);
            if (at / shards.shard == (size_t)rank)
                for (int r = 0; r < size; r++)
                    expected += r == rank ? 0 : value(r, at);
            CHECK(data[i] == expected);
        }
    }
    ls_request_free(&request);
}

static void play(ls_group *group, void *unused)
{
    (void)unused;
    static const char *const names[] = {"flat", "direct", "copy", "staged"};
    static const lsi_shards shards[] = {
        {0, 512}, {100, 64}, {2048, 1024}, {0, 100000}, {7, 13}};
    static const size_t counts[] = {0, 1, 100, 1111, 5000, TOTAL};
    void *data;
    CHECK_OK(ls_shared_alloc(group, TOTAL * sizeof(float), &data));
    for (size_t a = 0; a < TEST_COUNT(names); a++) {
        char line[64];
        snprintf(line, sizeof(line), "reduce_shards:0-inf:%s|staged", names[a]);
        if (a == 0)
            snprintf(line, sizeof(line),
                     "reduce_shards:0-32k:flat;32k-inf:staged");
        CHECK_OK(ls_group_select(group, line));
        for (size_t s = 0; s < TEST_COUNT(shards); s++)
            for (size_t c = 0; c < TEST_COUNT(counts); c++)
                check(group, data, shards[s], counts[c]);
    }
    CHECK_OK(ls_shared_free(group, &data));
}

static void every_rank_keeps_its_shard(void **state)
{
    static const int sizes[] = {1, 2, 3, 5, 8};
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(sizes); i++)
        run_threads(sizes[i], play, NULL);
    run_processes(3, play, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rank_keeps_its_shard),
    };
    return cmocka_run_group_tests_name("shards", tests, NULL, NULL);
}

/*
 * Which of several algorithms the ranks agree on, what they begin ahead of the
 * others, and that a failure keeps its own reason.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "comm/coll/algorithm.h"
#include "ranks.h"

enum { MOST = 80 * 1024 }; /* elements */

static const int rank_counts[] = {1, 2, 3, 5, 8};

static const char *used(const ls_group *group)
{
    return group->call.algorithm->name;
}

/* All-reduces rank + 1 at each place and looks at every result. */
static void reduce(ls_group *group, float *data, size_t count)
{
    const int size = ls_group_size(group);
    const float sum = (float)(size * (size + 1)) / 2;
    for (size_t i = 0; i < count; i++)
        data[i] = (float)(ls_group_rank(group) + 1);
    CHECK_OK(ls_all_reduce(group, data, data, count, LS_F32, LS_REDUCE_SUM));
    for (size_t i = 0; i < count; i++)
        CHECK(data[i] == sum);
}

/*
 * Again and again without a pause, so that a rank begins while others still
 * read what it began with before.
 */
static void reduce_often(ls_group *group, float *data, size_t count)
{
    for (int i = 0; i < 20; i++)
        reduce(group, data, count);
}

static void agree(ls_group *group, void *unused)
{
    const int size = ls_group_size(group);
    void *block = NULL;
    float *data = malloc(MOST * sizeof(float));
    (void)unused;
    CHECK(data != NULL);
    CHECK_OK(ls_shared_alloc(group, MOST * sizeof(float), &block));
    CHECK_OK(ls_group_select(group, "all_reduce:0-inf:direct|packed|staged"));
    reduce_often(group, data, 2000);
    CHECK(strcmp(used(group), size == 1 ? "direct" : "packed") == 0);
    reduce_often(group, data, 9000);
    CHECK(strcmp(used(group), size == 1 ? "direct" : "staged") == 0);
    reduce_often(group, data, MOST); /* several chunks */
    reduce_often(group, block, 2000);
    CHECK(strcmp(used(group), "direct") == 0);
    /* One rank has nothing that others can see, and does not know of them. */
    reduce_often(group, ls_group_rank(group) == 0 ? data : block, 2000);
    CHECK(strcmp(used(group), size == 1 ? "direct" : "staged") == 0);
    reduce_often(group, ls_group_rank(group) == 0 ? data : block, 9000);
    CHECK_OK(ls_shared_free(group, &block));
    free(data);
}

/* 256 KiB together are the most that is packed. */
static void limits(ls_group *group, void *unused)
{
    float *data = malloc(MOST * sizeof(float));
    const size_t ranks = (size_t)ls_group_size(group);
    const size_t most = 256 * 1024 / sizeof(float) / ranks;
    (void)unused;
    CHECK(data != NULL);
    CHECK_OK(ls_group_select(group, "all_reduce:0-inf:packed"));
    reduce(group, data, most < 8192 ? most : 8192);
    CHECK(ls_all_reduce(group, data, data, 8193, LS_F32, LS_REDUCE_SUM) ==
          LS_ERR_UNSUPPORTED);
    CHECK(strstr(ls_last_error(), "packed needs less data") != NULL);
    reduce(group, data, 10);
    free(data);
}

/* A later error does not replace the reason. */
static void keep_reason(ls_group *group, void *unused)
{
    ls_request *request = NULL;
    float *data = malloc(MOST * sizeof(float));
    (void)unused;
    CHECK(data != NULL);
    CHECK_OK(ls_group_select(group, "all_reduce:0-inf:packed"));
    CHECK_OK(ls_all_reduce_plan(group, data, data, MOST, LS_F32, LS_REDUCE_SUM,
                                &request));
    CHECK_OK(ls_start(request));
    CHECK(ls_broadcast(group, data, 10, LS_F32, 99) == LS_ERR_ARGUMENT);
    CHECK(strstr(ls_last_error(), "99") != NULL);
    CHECK(ls_wait(request) == LS_ERR_UNSUPPORTED);
    CHECK(strstr(ls_last_error(), "packed needs less data") != NULL);
    ls_request_free(&request);
    free(data);
}

/* Results of 16 MiB and more are stored in another way. */
static void reduce_much(ls_group *group, void *algorithm)
{
    const size_t count = ((size_t)16 << 20) / sizeof(float) + 1001;
    const int size = ls_group_size(group);
    void *send = NULL, *recv = NULL;
    CHECK_OK(ls_group_select(group, algorithm));
    CHECK_OK(ls_shared_alloc(group, count * sizeof(float), &send));
    CHECK_OK(ls_shared_alloc(group, count * sizeof(float), &recv));
    for (size_t i = 0; i < count; i++)
        ((float *)send)[i] =
            (float)(i % 1000) + (float)ls_group_rank(group) * 1000;
    CHECK_OK(ls_all_reduce(group, send, recv, count, LS_F32, LS_REDUCE_SUM));
    for (size_t i = 0; i < count; i++)
        CHECK(((float *)recv)[i] == (float)(i % 1000) * (float)size +
                                        (float)(size * (size - 1)) / 2 * 1000);
    CHECK_OK(ls_shared_free(group, &recv));
    CHECK_OK(ls_shared_free(group, &send));
}

static void much_is_reduced_alike(void **state)
{
    static char direct[] = "all_reduce:0-inf:direct";
    static char staged[] = "all_reduce:0-inf:staged";
    (void)state;
    run_processes(3, reduce_much, direct);
    run_processes(3, reduce_much, staged);
}

static void run_all(rank_fn *fn)
{
    for (size_t i = 0; i < sizeof(rank_counts) / sizeof(rank_counts[0]); i++)
        run_processes(rank_counts[i], fn, NULL);
}

static void ranks_agree_on_one(void **state)
{
    (void)state;
    run_all(agree);
}

static void packed_has_its_limits(void **state)
{
    (void)state;
    run_all(limits);
}

static void a_failure_keeps_its_reason(void **state)
{
    (void)state;
    run_all(keep_reason);
}

/* There are more allocations in the life of a group than numbers for them. */
static void allocate_often(ls_group *group, void *unused)
{
    void *first = NULL, *second = NULL;
    (void)unused;
    CHECK_OK(ls_shared_alloc(group, 10, &first));
    group->memory.shared_id = ((uint64_t)1 << 20) - 2;
    for (int i = 0; i < 4; i++) {
        CHECK_OK(ls_shared_alloc(group, 64, &second));
        CHECK_OK(ls_group_select(group, "all_reduce:0-inf:direct"));
        reduce(group, second, 16);
        CHECK_OK(ls_shared_free(group, &second));
    }
    CHECK_OK(ls_shared_free(group, &first));
}

static void numbers_of_allocations_come_again(void **state)
{
    (void)state;
    run_processes(2, allocate_often, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_agree_on_one),
        cmocka_unit_test(packed_has_its_limits),
        cmocka_unit_test(much_is_reduced_alike),
        cmocka_unit_test(a_failure_keeps_its_reason),
        cmocka_unit_test(numbers_of_allocations_come_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

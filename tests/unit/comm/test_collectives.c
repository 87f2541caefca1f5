/*
 * Every collective on 1 to 8 ranks, with whole numbers whose results are exact
 * in every type, on every path.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ranks.h"

static const int rank_counts[] = {1, 2, 3, 4, 5, 8};
static const size_t counts[] = {0, 1, 7, 63, 1000, 20011, 200003};

enum {
    RANK_COUNTS = sizeof(rank_counts) / sizeof(rank_counts[0]),
    COUNTS = sizeof(counts) / sizeof(counts[0])
};

/* The value of rank r at i: small, so that sums stay exact in f32. */
static float value(int rank, size_t i)
{
    return (float)((i * 7 + (size_t)rank * 13 + 5) % 23);
}

static float sum_of(int size, size_t i)
{
    float sum = 0;
    for (int r = 0; r < size; r++)
        sum += value(r, i);
    return sum;
}

typedef struct buffers {
    float *send, *recv;
    bool shared;
} buffers;

static float *buffer(ls_group *group, bool shared, size_t count)
{
    void *data = NULL;
    if (shared)
        CHECK_OK(ls_shared_alloc(group, count * sizeof(float), &data));
    else
        CHECK((data = malloc(count * sizeof(float) + 1)) != NULL);
    return data;
}

static void release(ls_group *group, bool shared, float *data)
{
    void *block = data;
    if (shared)
        CHECK_OK(ls_shared_free(group, &block));
    else
        free(block);
}

static void fill(float *data, int rank, size_t count)
{
    for (size_t i = 0; i < count; i++)
        data[i] = value(rank, i);
}

static void check_all_reduce(ls_group *group, size_t count, buffers at)
{
    const int size = ls_group_size(group), rank = ls_group_rank(group);
    fill(at.send, rank, count);
    CHECK_OK(
        ls_all_reduce(group, at.send, at.recv, count, LS_F32, LS_REDUCE_SUM));
    for (size_t i = 0; i < count; i++)
        CHECK(at.recv[i] == sum_of(size, i));
    fill(at.send, rank, count); /* in place */
    CHECK_OK(
        ls_all_reduce(group, at.send, at.send, count, LS_F32, LS_REDUCE_SUM));
    for (size_t i = 0; i < count; i++)
        CHECK(at.send[i] == sum_of(size, i));
}

static void check_reduce(ls_group *group, size_t count, buffers at)
{
    const int size = ls_group_size(group), rank = ls_group_rank(group);
    const int root = (int)(count % (size_t)size);
    fill(at.send, rank, count);
    CHECK_OK(ls_reduce(group, at.send, rank == root ? at.recv : NULL, count,
                       LS_F32, LS_REDUCE_SUM, root));
    for (size_t i = 0; i < count && rank == root; i++)
        CHECK(at.recv[i] == sum_of(size, i));
    for (size_t i = 0; i < count; i++)
        CHECK(at.send[i] == value(rank, i));
}

static void check_broadcast(ls_group *group, size_t count, buffers at)
{
    const int size = ls_group_size(group);
    const int root = (int)((count + 1) % (size_t)size);
    fill(at.send, ls_group_rank(group), count);
    CHECK_OK(ls_broadcast(group, at.send, count, LS_F32, root));
    for (size_t i = 0; i < count; i++)
        CHECK(at.send[i] == value(root, i));
}

/* send and recv hold `size` blocks of count each. */
static void check_gathers(ls_group *group, size_t count, buffers at)
{
    const int size = ls_group_size(group), rank = ls_group_rank(group);
    const int root = (int)(count % (size_t)size);
    fill(at.send, rank, count);
    CHECK_OK(ls_all_gather(group, at.send, at.recv, count, LS_F32));
    for (size_t i = 0; i < count * (size_t)size; i++)
        CHECK(at.recv[i] == value((int)(i / count), i % count));
    memset(at.recv, 0, count * (size_t)size * sizeof(float));
    fill(at.recv + (size_t)rank * count, rank, count); /* in place */
    CHECK_OK(ls_all_gather(group, at.recv + (size_t)rank * count, at.recv,
                           count, LS_F32));
    for (size_t i = 0; i < count * (size_t)size; i++)
        CHECK(at.recv[i] == value((int)(i / count), i % count));
    memset(at.recv, 0, count * (size_t)size * sizeof(float));
    CHECK_OK(ls_gather(group, at.send, rank == root ? at.recv : NULL, count,
                       LS_F32, root));
    for (size_t i = 0; i < count * (size_t)size && rank == root; i++)
        CHECK(at.recv[i] == value((int)(i / count), i % count));
}

static void check_scatters(ls_group *group, size_t count, buffers at)
{
    const int size = ls_group_size(group), rank = ls_group_rank(group);
    const int root = (int)(count % (size_t)size);
    const size_t n = count * (size_t)size, own = (size_t)rank * count;
    fill(at.send, rank, n);
    CHECK_OK(ls_reduce_scatter(group, at.send, at.recv, count, LS_F32,
                               LS_REDUCE_SUM));
    for (size_t i = 0; i < count; i++)
        CHECK(at.recv[i] == sum_of(size, own + i));
    CHECK_OK(ls_reduce_scatter(group, at.send, at.send + own, count, LS_F32,
                               LS_REDUCE_SUM)); /* in place */
    for (size_t i = 0; i < count; i++)
        CHECK(at.send[own + i] == sum_of(size, own + i));
    fill(at.send, rank, n);
    CHECK_OK(ls_scatter(group, rank == root ? at.send : NULL, at.recv, count,
                        LS_F32, root));
    for (size_t i = 0; i < count; i++)
        CHECK(at.recv[i] == value(root, own + i));
    CHECK_OK(ls_all_to_all(group, at.send, at.recv, count, LS_F32));
    for (size_t i = 0; i < n; i++)
        CHECK(at.recv[i] == value((int)(i / count), own + i % count));
    CHECK_OK(ls_all_to_all(group, at.send, at.send, count, LS_F32));
    for (size_t i = 0; i < n; i++)
        CHECK(at.send[i] == value((int)(i / count), own + i % count));
}

/* The selection line that forces one path for everything. */
typedef struct path {
    const char *line;
    bool shared;
} path;

static void all_collectives(ls_group *group, void *argument)
{
    const path *way = argument;
    const size_t size = (size_t)ls_group_size(group);
    CHECK_OK(ls_group_select(group, way->line));
    for (int c = 0; c < COUNTS; c++) {
        /* The long ones need not be longer for more ranks. */
        const size_t count = counts[c] > 1000 ? counts[c] / size : counts[c];
        buffers at = {buffer(group, way->shared, count * size),
                      buffer(group, way->shared, count * size), way->shared};
        check_all_reduce(group, count, at);
        check_reduce(group, count, at);
        check_broadcast(group, count, at);
        check_gathers(group, count, at);
        check_scatters(group, count, at);
        CHECK_OK(ls_barrier(group));
        release(group, way->shared, at.send);
        release(group, way->shared, at.recv);
    }
}

#define ALL_OPERATIONS(range)                                                  \
    "all_reduce:" range ",reduce:" range ",reduce_scatter:" range              \
    ",broadcast:" range ",all_gather:" range ",gather:" range                  \
    ",scatter:" range ",all_to_all:" range

static const path paths[] = {
    {"", false},
    {"", true},
    {ALL_OPERATIONS("0-inf:staged"), false},
    {ALL_OPERATIONS("0-inf:direct|staged"), true},
    {ALL_OPERATIONS("0-32k:flat;32k-inf:staged"), true},
    {"all_reduce:0-inf:ring", false},
    {"all_reduce:0-inf:butterfly", false},
};

enum { PATHS = sizeof(paths) / sizeof(paths[0]) };

static void collectives_on_threads(void **state)
{
    (void)state;
    for (int p = 0; p < PATHS; p++)
        for (int n = 0; n < RANK_COUNTS; n++) {
            path way = paths[p];
            run_threads(rank_counts[n], all_collectives, &way);
        }
}

static void collectives_on_processes(void **state)
{
    (void)state;
    for (int p = 0; p < PATHS; p++)
        for (int n = 1; n <= 5; n += 2) {
            path way = paths[p];
            run_processes(n, all_collectives, &way);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(collectives_on_threads),
        cmocka_unit_test(collectives_on_processes),
    };
    return cmocka_run_group_tests_name("collectives", tests, NULL, NULL);
}

/*
 * Input, expected results and bounds of a case, and how each operation is run
 * and checked.
 */
#include "cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/comm/ranks.h"
#include "comm/api/request.h"
#include "numbers.h"
#include "selection.h"

enum { GUARD = CASE_GUARD, MOST_RANKS = CASE_MOST_RANKS };

/* The value of a rank at i. */
static double value(const test_case *test, int rank, size_t i)
{
    const size_t mix = i * 7 + (size_t)rank * 5 + 3;
    if (test->fractions) {
        uint16_t half; /* a number that every type can hold */
        double x = ((double)(mix * 2654435761u % 4096) - 2048) / 257;
        if (test->redop == LS_REDUCE_PROD)
            x = 1 + x / 32; /* or sixteen of them are no f16 */
        number_store(&half, 0, LS_BF16, x);
        number_store(&half, 0, LS_F16, number_load(&half, 0, LS_BF16));
        return number_load(&half, 0, LS_F16);
    }
    if (test->dtype == LS_BOOL)
        return (double)(mix % 3 == 0);
    if (test->redop == LS_REDUCE_PROD)
        return mix % 3 == 0 ? 2 : 1;
    return (double)(mix % 8); /* sixteen of them are an i8 */
}

static double expected(const test_case *test, int size, size_t i)
{
    double values[MOST_RANKS];
    for (int r = 0; r < size; r++)
        values[r] = value(test, r, i);
    if (test->dtype == LS_BOOL)
        return reduce_truths(values, size, test->redop);
    return reduce_numbers(values, size, test->redop);
}

/*
 * n operations, each rounded once in the type of the sums, then the result in
 * its own type; an average also rounds 1/n and the product.
 */
static double allowed(const test_case *test, int size, size_t i)
{
    double magnitude = test->redop == LS_REDUCE_PROD ? 1 : 0;
    for (int r = 0; r < size; r++) {
        const double x = value(test, r, i);
        const double absolute = x < 0 ? -x : x;
        if (test->redop == LS_REDUCE_PROD)
            magnitude *= absolute;
        else
            magnitude += absolute;
    }
    const bool average = test->redop == LS_REDUCE_AVG;
    const bool rounds = test->fractions || average;
    if (!rounds || !is_float(test->dtype) || test->redop == LS_REDUCE_MIN ||
        test->redop == LS_REDUCE_MAX)
        return 0;
    const double exact = expected(test, size, i);
    return 1.01 * ((size + (average ? 2 : 0)) * magnitude *
                       rounding_of_sums(test->dtype) +
                   (exact < 0 ? -exact : exact) * rounding_of(test->dtype));
}

static void check_ran(const ls_group *group, const test_case *test)
{
    check_selected(group, test->algorithm,
                   (conditions){test->count * ls_dtype_size(test->dtype),
                                test->shared[0] != NULL, test->in_place});
}

/* ---- buffers ------------------------------------------------------------- */

static void fill(const test_case *test, unsigned char *data, int rank,
                 size_t elements, size_t room)
{
    memset(data, 0xa5, room * ls_dtype_size(test->dtype) + GUARD);
    for (size_t i = 0; i < elements; i++)
        number_store(data, i, test->dtype, value(test, rank, i));
}

/* The first (send) or second (receive) buffer. */
static unsigned char *filled(const test_case *test, int which, int rank,
                             size_t elements, size_t room)
{
    const size_t item = ls_dtype_size(test->dtype);
    unsigned char *data = test->shared[which];
    if (data == NULL)
        data = malloc(room * item + GUARD);
    CHECK(data != NULL);
    fill(test, data, rank, elements, room);
    return data;
}

static void release(const test_case *test, unsigned char *send,
                    unsigned char *recv)
{
    if (test->shared[0] != NULL)
        return;
    free(send);
    free(recv);
}

static void check_guard(const test_case *test, const unsigned char *data,
                        size_t room)
{
    for (size_t i = 0; i < GUARD; i++)
        CHECK(data[room * ls_dtype_size(test->dtype) + i] == 0xa5);
}

static void check_near(const test_case *test, int size, size_t i, double x)
{
    const double wanted = expected(test, size, i);
    const double off = x > wanted ? x - wanted : wanted - x;
    if (off <= allowed(test, size, i))
        return;
    fprintf(stderr,
            "%s %s %s %s count %zu ranks %d in place %d: element %zu is %.9g, "
            "not %.9g (allowed %g)\n",
            lsi_operation_name(test->algorithm->operation),
            test->algorithm->name, ls_dtype_name(test->dtype),
            ls_reduce_op_name(test->redop), test->count, size, test->in_place,
            i, x, wanted, allowed(test, size, i));
    abort();
}

/* got[0] is element `first` of the reduction. */
static void check_reduced(const test_case *test, const ls_group *group,
                          const void *got, size_t first)
{
    const int size = ls_group_size(group);
    /* One rank checks results that must be the same on all ranks. */
    const bool same = test->algorithm->operation == LSI_OP_ALL_REDUCE;
    const size_t begin = same ? (size_t)ls_group_rank(group) : 0;
    for (size_t i = begin; i < test->count; i += same ? (size_t)size : 1)
        check_near(test, size, first + i, number_load(got, i, test->dtype));
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
    unsigned char *send = filled(test, 0, rank, elements, elements);
    unsigned char *recv = filled(test, 1, rank, 0, count), *to = recv;
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
    check_ran(group, test);
    if (operation != LSI_OP_REDUCE || rank == root)
        check_reduced(test, group, to, scatters ? (size_t)rank * count : 0);
    if (operation == LSI_OP_ALL_REDUCE)
        check_same(group, to, count * item);
    check_guard(test, send, elements);
    check_guard(test, recv, count);
    release(test, send, recv);
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
        filled(test, 0, ls_group_rank(group), test->count, test->count);
    CHECK_OK(ls_broadcast(group, data, test->count, test->dtype, root));
    check_ran(group, test);
    for (size_t i = 0; i < test->count; i++)
        check_value(test, data, i, root, i);
    check_guard(test, data, test->count);
    release(test, data, NULL);
}

static void run_gather(ls_group *group, const test_case *test)
{
    const int size = ls_group_size(group), rank = ls_group_rank(group);
    const int root = (int)(test->count % (size_t)size);
    const size_t count = test->count, n = count * (size_t)size;
    const size_t own = (size_t)rank * count * ls_dtype_size(test->dtype);
    const bool to_all = test->algorithm->operation == LSI_OP_ALL_GATHER;
    unsigned char *send = filled(test, 0, rank, count, count);
    unsigned char *recv = filled(test, 1, rank, 0, n), *from = send;
    if (test->in_place && (to_all || rank == root)) {
        from = recv + own;
        memcpy(from, send, count * ls_dtype_size(test->dtype));
    }
    if (to_all)
        CHECK_OK(ls_all_gather(group, from, recv, count, test->dtype));
    else
        CHECK_OK(ls_gather(group, from, rank == root ? recv : NULL, count,
                           test->dtype, root));
    check_ran(group, test);
    check_ran(group, test);
    for (size_t i = 0; i < n && (to_all || rank == root); i++)
        check_value(test, recv, i, (int)(i / count), i % count);
    check_guard(test, recv, n);
    release(test, send, recv);
}

static void run_scatter(ls_group *group, const test_case *test)
{
    const int size = ls_group_size(group), rank = ls_group_rank(group);
    const int root = (int)(test->count % (size_t)size);
    const size_t count = test->count, n = count * (size_t)size;
    const size_t own = (size_t)rank * count;
    unsigned char *send = filled(test, 0, rank, n, n);
    unsigned char *recv = filled(test, 1, rank, 0, count), *to = recv;
    if (test->in_place && rank == root)
        to = send + own * ls_dtype_size(test->dtype);
    CHECK_OK(ls_scatter(group, rank == root ? send : NULL, to, count,
                        test->dtype, root));
    check_ran(group, test);
    for (size_t i = 0; i < count; i++)
        check_value(test, to, i, root, own + i);
    check_guard(test, recv, count);
    release(test, send, recv);
}

static void run_all_to_all(ls_group *group, const test_case *test)
{
    const int size = ls_group_size(group), rank = ls_group_rank(group);
    const size_t count = test->count, n = count * (size_t)size;
    unsigned char *send = filled(test, 0, rank, n, n);
    unsigned char *recv = filled(test, 1, rank, 0, n);
    unsigned char *to = test->in_place ? send : recv;
    CHECK_OK(ls_all_to_all(group, send, to, count, test->dtype));
    check_ran(group, test);
    for (size_t i = 0; i < n; i++)
        check_value(test, to, i, (int)(i / count),
                    (size_t)rank * count + i % count);
    check_guard(test, to, n);
    release(test, send, recv);
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

/* ---- shards -------------------------------------------------------------- */

/* The range begins inside a shard, and its last shards may be empty. */
static lsi_shards shards_of(const ls_group *group, size_t count)
{
    const size_t ranks = (size_t)ls_group_size(group);
    const size_t shard = count / ranks + count % 3 + 1;
    return (lsi_shards){.first = shard / 2, .shard = shard};
}

/* Planned, in place, and done twice: the second run adds again. */
static void run_reduce_shards(ls_group *group, const test_case *test)
{
    const int size = ls_group_size(group), rank = ls_group_rank(group);
    const lsi_shards shards = shards_of(group, test->count);
    unsigned char *data = filled(test, 0, rank, test->count, test->count);
    ls_request *request = NULL;
    CHECK_OK(lsi_reduce_shards_plan(
        group, (lsi_buffer){data, test->count, test->dtype}, shards, &request));
    for (int repeat = 0; repeat < 2; repeat++) {
        fill(test, data, rank, test->count, test->count);
        CHECK_OK(ls_start(request));
        CHECK_OK(ls_wait(request));
        check_ran(group, test);
        for (size_t i = 0; i < test->count; i++) {
            const bool owned =
                (shards.first + i) / shards.shard == (size_t)rank;
            const double x = number_load(data, i, test->dtype);
            if (owned)
                check_near(test, size, i, x);
            else
                check_value(test, data, i, rank, i);
        }
    }
    ls_request_free(&request);
    check_guard(test, data, test->count);
    release(test, data, NULL);
}

/* ---- counts of their own ------------------------------------------------- */

/*
 * Elements of a block between two ranks, or of one rank's: none, the whole
 * count or a part of it.
 */
static size_t counted(const test_case *test, int from, int to)
{
    const size_t mix = test->in_place ? (size_t)(from + to)
                                      : (size_t)from * 3 + (size_t)to * 5;
    return test->count * ((mix + test->count) % 4) / 3;
}

/* Where the blocks begin, and behind the last one. */
static void begins_of(const size_t *counts, int size, size_t *begin)
{
    begin[0] = 0;
    for (int r = 0; r < size; r++)
        begin[r + 1] = begin[r] + counts[r];
}

static void run_all_gatherv(ls_group *group, const test_case *test)
{
    const int size = ls_group_size(group), rank = ls_group_rank(group);
    const size_t item = ls_dtype_size(test->dtype);
    size_t counts[MOST_RANKS], begin[MOST_RANKS + 1];
    for (int r = 0; r < size; r++)
        counts[r] = counted(test, r, 0);
    begins_of(counts, size, begin);
    unsigned char *send = filled(test, 0, rank, counts[rank], counts[rank]);
    unsigned char *recv = filled(test, 1, rank, 0, begin[size]), *from = send;
    if (test->in_place) {
        from = recv + begin[rank] * item;
        memcpy(from, send, counts[rank] * item);
    }
    CHECK_OK(
        ls_all_gatherv(group, from, counts[rank], recv, counts, test->dtype));
    check_ran(group, test);
    for (int r = 0; r < size; r++)
        for (size_t i = begin[r]; i < begin[r + 1]; i++)
            check_value(test, recv, i, r, i - begin[r]);
    check_guard(test, recv, begin[size]);
    release(test, send, recv);
}

static void run_reduce_scatterv(ls_group *group, const test_case *test)
{
    const int size = ls_group_size(group), rank = ls_group_rank(group);
    size_t counts[MOST_RANKS], begin[MOST_RANKS + 1];
    for (int r = 0; r < size; r++)
        counts[r] = counted(test, r, 0);
    begins_of(counts, size, begin);
    unsigned char *send = filled(test, 0, rank, begin[size], begin[size]);
    unsigned char *recv = filled(test, 1, rank, 0, counts[rank]), *to = recv;
    if (test->in_place)
        to = send + begin[rank] * ls_dtype_size(test->dtype);
    CHECK_OK(
        ls_reduce_scatterv(group, send, to, counts, test->dtype, test->redop));
    check_ran(group, test);
    for (size_t i = 0; i < counts[rank]; i++)
        check_near(test, size, begin[rank] + i,
                   number_load(to, i, test->dtype));
    check_guard(test, send, begin[size]);
    check_guard(test, recv, counts[rank]);
    release(test, send, recv);
}

static void run_all_to_allv(ls_group *group, const test_case *test)
{
    const int size = ls_group_size(group), rank = ls_group_rank(group);
    size_t sends[MOST_RANKS], receives[MOST_RANKS], begin[MOST_RANKS + 1];
    for (int r = 0; r < size; r++)
        receives[r] = counted(test, r, rank);
    for (int r = 0; r < size; r++)
        sends[r] = counted(test, rank, r);
    begins_of(sends, size, begin);
    unsigned char *send = filled(test, 0, rank, begin[size], begin[size]);
    begins_of(receives, size, begin);
    unsigned char *recv = filled(test, 1, rank, 0, begin[size]);
    unsigned char *to = test->in_place ? send : recv;
    CHECK_OK(ls_all_to_allv(group, send, sends, to, receives, test->dtype));
    check_ran(group, test);
    for (int r = 0; r < size; r++) {
        size_t first = 0; /* of this rank's block in that rank's buffer */
        for (int before = 0; before < rank; before++)
            first += counted(test, r, before);
        for (size_t i = begin[r]; i < begin[r + 1]; i++)
            check_value(test, to, i, r, first + i - begin[r]);
    }
    check_guard(test, to, begin[size]);
    release(test, send, recv);
}

static void run_counted(ls_group *group, const test_case *test)
{
    switch (test->algorithm->operation) {
    case LSI_OP_ALL_GATHERV:
        run_all_gatherv(group, test);
        break;
    case LSI_OP_REDUCE_SCATTERV:
        run_reduce_scatterv(group, test);
        break;
    default:
        run_all_to_allv(group, test);
        break;
    }
}

/* ---- any ----------------------------------------------------------------- */

void run_case(ls_group *group, const test_case *test)
{
    const lsi_operation operation = test->algorithm->operation;
    if (operation == LSI_OP_REDUCE_SHARDS)
        run_reduce_shards(group, test);
    else if (lsi_operation_has_counts(operation))
        run_counted(group, test);
    else if (lsi_operation_reduces(operation))
        run_reduction(group, test);
    else
        run_movement(group, test);
}

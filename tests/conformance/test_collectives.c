/*
 * Every row of algorithms.def that a user can select, on 1 to 16 ranks, with
 * every type, reduction, kind of count, and in and out of place, against
 * float64. A new algorithm is tested because it has a row.
 *
 * Of the product of all these a fixed part is run, in which for each number of
 * ranks every pair of values of any two of the others occurs. Called with the
 * argument "whole" the test runs the whole product, with "whole N" on N ranks
 * only. Called with "rank" it is one of the ranks that a launcher has started;
 * "rank brief" does less, "rank whole" all, and "rank whole 8 0" an eighth of
 * it.
 *
 * Two kinds of input: small whole numbers, whose sums and products are exact in
 * every type, so that nothing but the exact result will do; and fractions,
 * whose result may differ from float64 by one rounding for each operation.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../unit/comm/nodes.h"
#include "comm/algo/algorithm.h"
#include "numbers.h"
#include "points.h"

static const int rank_counts[] = {1, 2, 3, 4, 5, 8, 16};
/*
 * Nothing, one, odd, a prime beyond a line, beyond a small message, and, of
 * wide types, beyond a chunk of the windows.
 */
static const size_t counts[] = {0, 1, 15, 257, 6007, 70001};

enum {
    RANK_COUNTS = sizeof(rank_counts) / sizeof(rank_counts[0]),
    COUNTS = sizeof(counts) / sizeof(counts[0]),
    MOST_RANKS = 16,
    MOST_BYTES = 70001 * 8 * MOST_RANKS,
    GUARD = 16 /* bytes behind a buffer that must not change */
};

typedef struct test_case {
    const lsi_algorithm *algorithm;
    ls_dtype dtype;
    ls_reduce_op redop;
    size_t count;
    bool in_place, fractions;
    unsigned char *shared[2]; /* where the buffers lie, or NULL */
} test_case;

static bool whole;               /* product */
static uint64_t parts = 1, part; /* of it */
static int only; /* this number of ranks; 0: all, and 3 processes */

static bool reduces(lsi_operation operation)
{
    return operation == LSI_OP_ALL_REDUCE || operation == LSI_OP_REDUCE ||
           operation == LSI_OP_REDUCE_SCATTER;
}

/* What a rank holds at i. */
static double value(const test_case *test, int rank, size_t i)
{
    const size_t mix = i * 7 + (size_t)rank * 5 + 3;
    if (test->fractions) {
        uint16_t half; /* a number that every type can hold */
        double x = ((double)(mix * 2654435761u % 4096) - 2048) / 257;
        if (test->redop == LS_PROD)
            x = 1 + x / 32; /* or sixteen of them are no f16 */
        number_store(&half, 0, LS_BF16, x);
        number_store(&half, 0, LS_F16, number_load(&half, 0, LS_BF16));
        return number_load(&half, 0, LS_F16);
    }
    if (test->redop == LS_PROD)
        return mix % 3 == 0 ? 2 : 1;
    return (double)(mix % 8); /* sixteen of them are an i8 */
}

static double expected(const test_case *test, int size, size_t i)
{
    double values[MOST_RANKS];
    for (int r = 0; r < size; r++)
        values[r] = value(test, r, i);
    return reduce_numbers(values, size, test->redop);
}

/*
 * n operations, each rounded once in the type of the sums, then the result in
 * its own type; an average also rounds 1/n and the product.
 */
static double allowed(const test_case *test, int size, size_t i)
{
    double magnitude = test->redop == LS_PROD ? 1 : 0;
    for (int r = 0; r < size; r++) {
        const double x = value(test, r, i);
        const double absolute = x < 0 ? -x : x;
        if (test->redop == LS_PROD)
            magnitude *= absolute;
        else
            magnitude += absolute;
    }
    const bool average = test->redop == LS_AVG;
    const bool rounds = test->fractions || average;
    if (!rounds || is_integer(test->dtype) || test->redop == LS_MIN ||
        test->redop == LS_MAX)
        return 0;
    const double exact = expected(test, size, i);
    return 1.01 * ((size + (average ? 2 : 0)) * magnitude *
                       rounding_of_sums(test->dtype) +
                   (exact < 0 ? -exact : exact) * rounding_of(test->dtype));
}

/* ---- buffers ------------------------------------------------------------- */

/* The first (send) or second (receive) buffer. */
static unsigned char *filled(const test_case *test, int which, int rank,
                             size_t elements, size_t room)
{
    const size_t item = ls_dtype_size(test->dtype);
    unsigned char *data = test->shared[which];
    if (data == NULL)
        data = malloc(room * item + GUARD);
    CHECK(data != NULL);
    memset(data, 0xa5, room * item + GUARD);
    for (size_t i = 0; i < elements; i++)
        number_store(data, i, test->dtype, value(test, rank, i));
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

/* got[0] is element `first` of the reduction. */
static void check_reduced(const test_case *test, const ls_group *group,
                          const void *got, size_t first)
{
    const int size = ls_group_size(group);
    /* What must be the same on all ranks is looked at by one of them. */
    const bool same = test->algorithm->operation == LSI_OP_ALL_REDUCE;
    const size_t begin = same ? (size_t)ls_group_rank(group) : 0;
    for (size_t i = begin; i < test->count; i += same ? (size_t)size : 1) {
        const double x = number_load(got, i, test->dtype);
        const double wanted = expected(test, size, first + i);
        const double off = x > wanted ? x - wanted : wanted - x;
        if (!(off <= allowed(test, size, first + i))) {
            fprintf(stderr,
                    "%s %s %s %s count %zu ranks %d in place %d: element %zu "
                    "is %.9g, not %.9g (allowed %g)\n",
                    lsi_operation_name(test->algorithm->operation),
                    test->algorithm->name, ls_dtype_name(test->dtype),
                    ls_reduce_op_name(test->redop), test->count, size,
                    test->in_place, first + i, x, wanted,
                    allowed(test, size, first + i));
            abort();
        }
    }
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

/* ---- barriers ------------------------------------------------------------ */

/* Nobody leaves before all have arrived. */
static void run_barriers(ls_group *group, const lsi_algorithm *algorithm)
{
    char line[64];
    void *own = NULL;
    snprintf(line, sizeof(line), "barrier:0-1:%s", algorithm->name);
    CHECK_OK(ls_group_select(group, line));
    CHECK_OK(ls_shared_alloc(group, sizeof(atomic_int), &own));
    for (int i = 1; i <= 20; i++) {
        atomic_fetch_add((atomic_int *)own, 1);
        CHECK_OK(ls_barrier(group));
        for (int r = 0; r < ls_group_size(group); r++) {
            atomic_int *const theirs = ls_shared_peer(group, own, r);
            CHECK(theirs == NULL || atomic_load(theirs) >= i);
        }
    }
    CHECK_OK(ls_shared_free(group, &own));
}

/* ---- the matrix ---------------------------------------------------------- */

/* Points with a new pair, and some more of those that cost little. */
static bool is_chosen(pair_set seen, const point *p, size_t elements)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (int d = 0; d < DIMENSIONS; d++)
        hash = (hash ^ (uint64_t)p->at[d]) * 0x100000001b3u;
    return whole ? hash % parts == part
                 : add_pairs(seen, p) || (elements < 5000 && hash % 16 == 0);
}

/*
 * The thread sanitizer looks for races, which do not depend on how numbers are
 * added: for it a part is enough, and takes a tenth of the time.
 */
#if defined(__SANITIZE_THREAD__)
enum { RACES_ONLY = true };
#else
enum { RACES_ONLY = false };
#endif

static bool brief = RACES_ONLY; /* a part is enough */
static bool only_between_nodes; /* what is for groups that span them */

static bool matters_to_races(const test_case *test)
{
    return (test->dtype == LS_F32 || test->dtype == LS_BF16) &&
           (test->redop == LS_SUM || test->redop == LS_AVG) &&
           test->count <= 6007;
}

static bool makes_sense(const lsi_algorithm *algorithm, const test_case *test)
{
    if (brief && !matters_to_races(test))
        return false;
    if (test->fractions && is_integer(test->dtype))
        return false;
    if (!reduces(algorithm->operation))
        return test->redop == LS_SUM;
    return test->redop != LS_AVG || !is_integer(test->dtype);
}

/* What one rank knows of a run. */
typedef struct progress {
    unsigned char *shared[2]; /* buffers, if it is also to be done in those */
    pair_set *seen;
    long cases;
} progress;

static void run_point(ls_group *group, const point *p, progress *run)
{
    const lsi_algorithm *algorithm = lsi_algorithm_at(p->at[ROW]);
    test_case test = {.algorithm = algorithm,
                      .dtype = (ls_dtype)p->at[DTYPE],
                      .redop = (ls_reduce_op)p->at[REDOP],
                      .count = counts[p->at[COUNT]],
                      .in_place = p->at[PLACE],
                      .fractions = p->at[NUMBERS]};
    if (!makes_sense(algorithm, &test))
        return;
    if (p->at[MEMORY] != 0)
        memcpy(test.shared, run->shared, sizeof(test.shared));
    if (!is_chosen(*run->seen, p, test.count * (size_t)ls_group_size(group)))
        return;
    run->cases++;
    if (reduces(algorithm->operation))
        run_reduction(group, &test);
    else
        run_movement(group, &test);
}

/* All points of a row, counted through like an odometer. */
static void run_row(ls_group *group, point p, progress *run)
{
    const int values[DIMENSIONS] = {[DTYPE] = LS_DTYPE_COUNT,
                                    [REDOP] = LS_REDUCE_OP_COUNT,
                                    [COUNT] = COUNTS,
                                    [PLACE] = 2,
                                    [NUMBERS] = 2,
                                    [MEMORY] = run->shared[0] != NULL ? 2 : 1};
    int d;
    do {
        run_point(group, &p, run);
        for (d = DTYPE; d < DIMENSIONS && ++p.at[d] == values[d]; d++)
            p.at[d] = 0;
    } while (d < DIMENSIONS);
}

/* Falls back to one that always works where the algorithm has its limits. */
static void select_only(ls_group *group, const lsi_algorithm *algorithm)
{
    const char *operation = lsi_operation_name(algorithm->operation);
    const char *other = fallback_of(group, algorithm->operation);
    char line[128];
    if (algorithm->in_cells)
        snprintf(line, sizeof(line), "%s:0-32k:%s;32k-inf:%s", operation,
                 algorithm->name, other);
    else
        snprintf(line, sizeof(line), "%s:0-inf:%s|%s", operation,
                 algorithm->name, other);
    CHECK_OK(ls_group_select(group, line));
}

static void run_rows(ls_group *group, progress *run)
{
    point p = {{0}};
    run->seen = calloc(1, sizeof(*run->seen));
    CHECK(run->seen != NULL);
    const lsi_algorithm *algorithm;
    while (p.at[RANKS] < RANK_COUNTS &&
           rank_counts[p.at[RANKS]] != ls_group_size(group))
        p.at[RANKS]++;
    for (; (algorithm = lsi_algorithm_at(p.at[ROW])) != NULL; p.at[ROW]++) {
        CHECK(p.at[ROW] < MOST_VALUES);
        if (algorithm->operation == LSI_OP_BARRIER) {
            run_barriers(group, algorithm);
        } else if (algorithm->operation <= LSI_OP_ALL_TO_ALL &&
                   (!only_between_nodes ||
                    algorithm->needs == LSI_PATH_NODES)) {
            select_only(group, algorithm);
            run_row(group, p, run);
        }
    }
    free(run->seen);
    if (whole && ls_group_rank(group) == 0)
        fprintf(stderr, "%d ranks: %ld cases\n", ls_group_size(group),
                run->cases);
}

static void run_on_threads(ls_group *group, void *argument)
{
    (void)argument;
    progress run = {.cases = 0};
    run_rows(group, &run);
}

static void every_row_conforms_on_threads(void **state)
{
    (void)state;
    for (int n = 0; n < RANK_COUNTS; n++)
        if (only == 0 || only == rank_counts[n])
            run_threads(rank_counts[n], run_on_threads, NULL);
}

/* Here it matters which memory others can reach. */
static void run_on_processes(ls_group *group, void *argument)
{
    progress run = {.cases = 0};
    (void)argument;
    for (int i = 0; i < 2; i++) {
        void *data = NULL;
        CHECK_OK(ls_shared_alloc(group, MOST_BYTES + GUARD, &data));
        run.shared[i] = data;
    }
    run_rows(group, &run);
}

static void every_row_conforms_on_processes(void **state)
{
    (void)state;
    run_processes(only == 0 ? 3 : only, run_on_processes, NULL);
}

/* Two hosts, uneven ones, and so many that they halve. */
static void every_row_conforms_between_nodes(void **state)
{
    (void)state;
    brief = true;
    run_nodes((const int[]){2, 2}, 2, run_on_processes, NULL);
    run_nodes((const int[]){2, 1, 3}, 3, run_on_threads, NULL);
    only_between_nodes = true;
    run_nodes((const int[]){1, 2, 1, 1, 1, 1, 1, 1, 1, 1}, 10, run_on_threads,
              NULL);
    only_between_nodes = false;
    brief = RACES_ONLY;
}

/* As a rank that somebody else has started. */
static int conform_as_rank(int argc, char **argv)
{
    ls_group *group = NULL;
    parts = argc > 4 ? strtoull(argv[3], NULL, 10) : 1;
    part = argc > 4 ? strtoull(argv[4], NULL, 10) : 0;
    brief = brief || (argc > 2 && strcmp(argv[2], "brief") == 0);
    whole = argc > 2 && strcmp(argv[2], "whole") == 0;
    CHECK_OK(ls_group_from_env(&group));
    run_on_processes(group, NULL);
    ls_group_close(&group);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "rank") == 0)
        return conform_as_rank(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_conforms_between_nodes),
        cmocka_unit_test(every_row_conforms_on_threads),
        cmocka_unit_test(every_row_conforms_on_processes),
    };
    whole = argc > 1 && strcmp(argv[1], "whole") == 0;
    only = argc > 2 ? atoi(argv[2]) : 0;
    return cmocka_run_group_tests_name("conformance", tests, NULL, NULL);
}

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
 * it; "named" in place of "rank" opens the group by a name and a store.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../unit/comm/nodes.h"
#include "cases.h"
#include "comm/coll/nodes/pipeline.h"
#include "comm/core/engine.h"
#include "comm/core/wait.h"
#include "comm/rendezvous/client.h"
#include "comm/state/channels.h"
#include "coverage.h"
#include "messages.h"
#include "numbers.h"
#include "points.h"
#include "selection.h"

static const int rank_counts[] = {1, 2, 3, 4, 5, 8, 16};
/*
 * Nothing, one, odd, a prime beyond a line, beyond a small message, and, of
 * wide types, beyond a chunk of the windows.
 */
static const size_t counts[] = {0, 1, 15, 257, 6007, 70001};

enum {
    RANK_COUNTS = sizeof(rank_counts) / sizeof(rank_counts[0]),
    COUNTS = sizeof(counts) / sizeof(counts[0]),
    MOST_BYTES = 70001 * 8 * CASE_MOST_RANKS
};

static bool whole;               /* product */
static uint64_t parts = 1, part; /* of it */
static int only; /* this number of ranks; 0: all, and 3 processes */

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
        CHECK(coverage_last(group) == algorithm);
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
           (test->redop == LS_REDUCE_SUM || test->redop == LS_REDUCE_AVG) &&
           test->count <= 6007;
}

static bool makes_sense(const lsi_algorithm *algorithm, const test_case *test)
{
    if (brief && !matters_to_races(test))
        return false;
    if (test->fractions && !is_float(test->dtype))
        return false;
    if (!lsi_operation_reduces(algorithm->operation))
        return test->redop == LS_REDUCE_SUM;
    if (algorithm->operation == LSI_OP_REDUCE_SHARDS)
        return test->redop == LS_REDUCE_SUM && test->in_place;
    return is_float(test->dtype) ? test->redop < LS_REDUCE_BAND
                                 : test->redop != LS_REDUCE_AVG;
}

/* The state of a run on one rank. */
typedef struct progress {
    unsigned char *shared[2]; /* buffers, if it is also to be done in those */
    pair_set *seen;
    coverage_mark mark;
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
    run_case(group, &test);
    coverage_take(group, &run->mark);
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

/* The exchanges that the library makes internally. */
static void run_internal(ls_group *group)
{
    size_t sizes[CASE_MOST_RANKS];
    void *all = NULL, *data = NULL;
    ls_group *half = NULL;
    const int rank = ls_group_rank(group);
    CHECK_OK(ls_all_gather_bytes(group, &rank, sizeof(rank), sizes, &all));
    for (int r = 0; r < ls_group_size(group); r++)
        CHECK(sizes[r] == sizeof(rank) && ((int *)all)[r] == r);
    ls_free(all);
    CHECK_OK(ls_group_split(group, rank % 2, rank, &half));
    CHECK(ls_group_rank(half) == rank / 2);
    ls_group_close(&half);
    CHECK_OK(ls_shared_alloc(group, 1, &data));
    CHECK_OK(ls_shared_free(group, &data));
}

/* A part of hierarchical collectives, which users do not call: shard by shard,
 * private and shared, to everybody and to a root. */
static void run_gather_shards(ls_group *group, unsigned char *shared, int root)
{
    enum { SHARD = 30011 };
    const size_t n = (size_t)ls_group_size(group) * SHARD - 7;
    const lsi_call call = {.operation = LSI_OP_GATHER_SHARDS,
                           .dtype = LS_I32,
                           .count = n,
                           .root = root};
    const int rank = ls_group_rank(group);
    int32_t *const own = malloc(n * sizeof(int32_t));
    int32_t *const data = shared != NULL ? (int32_t *)(void *)shared : own;
    lsi_collective op;
    CHECK(own != NULL);
    for (size_t i = 0; i < n; i++)
        data[i] = i / SHARD == (size_t)rank ? (int32_t)i : -1;
    lsi_collective_nest(&op, group, &call, data, data);
    op.cut = (lsi_cut){.shard = SHARD};
    CHECK_OK(lsi_collective_complete(&op));
    for (size_t i = 0; i < n; i++)
        CHECK(data[i] ==
              (root == LSI_ROOT_ALL || root == rank || i / SHARD == (size_t)rank
                   ? (int32_t)i
                   : -1));
    free(own);
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
        } else if (lsi_operation_selectable(algorithm->operation) &&
                   (!only_between_nodes ||
                    algorithm->needs == LSI_PATH_NODES)) {
            select_algorithm(group, algorithm);
            run_row(group, p, run);
        }
    }
    free(run->seen);
    run_internal(group);
    run_messages(group);
    for (int i = 0; i < 2 && !lsi_spans_nodes(group); i++) {
        run_gather_shards(group, i == 0 ? NULL : run->shared[0], LSI_ROOT_ALL);
        run_gather_shards(group, i == 0 ? NULL : run->shared[0], 0);
    }
    coverage_take(group, &run->mark);
    if (group->memory.can_copy)
        coverage_can_copy();
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
        CHECK_OK(ls_shared_alloc(group, MOST_BYTES + CASE_GUARD, &data));
        run.shared[i] = data;
    }
    run_rows(group, &run);
}

static void every_row_conforms_on_processes(void **state)
{
    (void)state;
    run_processes(only == 0 ? 3 : only, run_on_processes, NULL);
}

/* Two hosts, uneven ones, and enough hosts for halving. */
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

/* Selected, not ruled out by fallbacks, and seen by the recorders. */
static void every_row_has_run(void **state)
{
    (void)state;
    assert_int_equal(coverage_missing(), 0);
}

static int number(const char *variable)
{
    const char *text = getenv(variable);
    CHECK(text != NULL);
    return atoi(text);
}

/* By a name, and the store that a launcher serves as the caller's. */
static void open_by_name(ls_group **group)
{
    ls_store store;
    const int rank = number("RANK"), size = number("WORLD_SIZE");
    CHECK_OK(lsi_store_connect(getenv("LOCKSTEP_RENDEZVOUS"),
                               getenv("LOCKSTEP_SECRET"), 30, &store));
    CHECK_OK(ls_group_open(group, "conformance", rank, size, &store, 30));
    lsi_store_disconnect(&store);
}

/* As a rank that somebody else has started. */
static int conform_as_rank(int argc, char **argv)
{
    ls_group *group = NULL;
    parts = argc > 4 ? strtoull(argv[3], NULL, 10) : 1;
    part = argc > 4 ? strtoull(argv[4], NULL, 10) : 0;
    brief = brief || (argc > 2 && strcmp(argv[2], "brief") == 0);
    whole = argc > 2 && strcmp(argv[2], "whole") == 0;
    if (strcmp(argv[1], "named") == 0)
        open_by_name(&group);
    else
        CHECK_OK(ls_group_from_env(&group));
    run_on_processes(group, NULL);
    ls_group_close(&group);
    return 0;
}

int main(int argc, char **argv)
{
    coverage_open();
    if (argc > 1 &&
        (strcmp(argv[1], "rank") == 0 || strcmp(argv[1], "named") == 0))
        return conform_as_rank(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_conforms_between_nodes),
        cmocka_unit_test(every_row_conforms_on_threads),
        cmocka_unit_test(every_row_conforms_on_processes),
        cmocka_unit_test(every_row_has_run),
    };
    whole = argc > 1 && strcmp(argv[1], "whole") == 0;
    only = argc > 2 ? atoi(argv[2]) : 0;
    return cmocka_run_group_tests_name("conformance", tests, NULL, NULL);
}

/*
 * Reductions over nodes fold the ranks of each node, and then the results of
 * the nodes, at every length. All default algorithms do, and those that follow
 * the order of the group. The bits are those of loops written from this
 * definition. In a deterministic group, and by `halving` and `doubling`, they
 * are those of a fold over all ranks.
 *
 * Called with "rank 2,1,3" the test is one of the ranks that a launcher has
 * started: 2 on the first host, 1 on the next, 3 on the last.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../unit/comm/nodes.h"
#include "base/bits.h"
#include "comm/api/place.h"
#include "comm/api/request.h"
#include "comm/state/channels.h"
#include "numbers.h"

/* One, odd, around the 4 KiB of f32 where algorithms change, and long ones. */
static const size_t counts[] = {1, 15, 1023, 1024, 1025, 4097, 99991, 100000};

enum {
    COUNTS = sizeof(counts) / sizeof(counts[0]),
    FEW = COUNTS - 2, /* counts that are not long */
    MOST_COUNT = 100000,
    MOST_RANKS = 16
};

typedef struct kind {
    ls_dtype dtype;
    ls_reduce_op redop;
    bool premul; /* each rank multiplies by its factor first */
} kind;

static const kind kinds[] = {
    {LS_F32, LS_REDUCE_SUM, false}, {LS_F32, LS_REDUCE_AVG, false},
    {LS_F32, LS_REDUCE_SUM, true},  {LS_F64, LS_REDUCE_PROD, false},
    {LS_F16, LS_REDUCE_SUM, false}, {LS_BF16, LS_REDUCE_AVG, false},
    {LS_BF16, LS_REDUCE_SUM, true}};

enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

typedef struct test_case {
    ls_group *group;
    int place[MOST_RANKS]; /* node of each rank; all 0: the order of ranks */
    kind kind;
    size_t count;
    const char *line; /* of the selection table */
    const char *call; /* for messages */
} test_case;

/* ---- the definition ------------------------------------------------------ */

/* Opposite numbers of the first ranks cancel (`value`), so do the products. */
static double factor_of(int rank)
{
    return rank < 3 ? 0.7 : 0.3 + rank * 0.45;
}

/* Rounded as sums of the type are. */
static double rounded(ls_dtype dtype, double x)
{
    return dtype == LS_F64 ? x : (double)(float)x;
}

/* At odd elements, two ranks have opposite numbers that hide the others'. */
static bool cancels(int rank, size_t i)
{
    return rank == 0 || rank == (i % 4 < 2 ? 1 : 2);
}

/* Otherwise from 2^-13 to 2^13, of both signs. Of products, near 1. */
static double value(const kind *k, int rank, size_t i)
{
    uint64_t mix = (i * MOST_RANKS + (size_t)rank + 1) * 0x9e3779b97f4a7c15u;
    mix = (mix ^ mix >> 29) * 0xbf58476d1ce4e5b9u;
    const double fraction = (double)(mix >> 11) * 0x1p-53 + 0.5;
    const double sign = mix & 1 ? 1 : -1;
    const double scale = (double)(1 << (mix >> 1) % 25) / (1 << 12);
    double x = sign * fraction * (k->redop == LS_REDUCE_PROD ? 1 : scale);
    if (k->redop != LS_REDUCE_PROD && i % 2 == 1 && cancels(rank, i))
        x = rank == 0 ? 0x1p14 : -0x1p14;
    uint64_t stored = 0;
    number_store(&stored, 0, k->dtype, x);
    return number_load(&stored, 0, k->dtype);
}

/* The number that a rank adds. Products of two f32 are exact in double. */
static double term(const kind *k, int rank, size_t i)
{
    const double x = value(k, rank, i);
    if (!k->premul)
        return x;
    return rounded(k->dtype, rounded(k->dtype, factor_of(rank)) * x);
}

/* With h the largest power of two below n, r + h joins r; then again with h. */
static double fold(const kind *k, double *v, int n)
{
    while (n > 1) {
        int h = 1;
        while (2 * h < n)
            h *= 2;
        for (int r = 0; r + h < n; r++)
            v[r] =
                rounded(k->dtype, k->redop == LS_REDUCE_PROD ? v[r] * v[r + h]
                                                             : v[r] + v[r + h]);
        n = h;
    }
    return v[0];
}

/* Nodes are in the order of their first ranks. */
static double expected(const test_case *test, int size, size_t i)
{
    const kind *k = &test->kind;
    double nodes[MOST_RANKS], ranks[MOST_RANKS];
    bool seen[MOST_RANKS] = {false};
    int n = 0;
    for (int first = 0; first < size; first++) {
        int m = 0;
        for (int r = first; r < size && !seen[test->place[first]]; r++)
            if (test->place[r] == test->place[first])
                ranks[m++] = term(k, r, i);
        seen[test->place[first]] = true;
        if (m > 0)
            nodes[n++] = fold(k, ranks, m);
    }
    const double sum = fold(k, nodes, n);
    return k->redop == LS_REDUCE_AVG
               ? rounded(k->dtype, sum * rounded(k->dtype, 1.0 / size))
               : sum;
}

/* got[0] is element `first` of the reduction. */
static void check(const test_case *test, const void *got, size_t first,
                  size_t n)
{
    const ls_dtype dtype = test->kind.dtype;
    const size_t item = ls_dtype_size(dtype);
    for (size_t i = 0; i < n; i++) {
        unsigned char wanted[8];
        number_store(wanted, 0, dtype,
                     expected(test, ls_group_size(test->group), first + i));
        if (memcmp((const char *)got + i * item, wanted, item) == 0)
            continue;
        fprintf(stderr,
                "%s of %zu %s (%s%s) by '%s', rank %d of %d: element %zu is "
                "%.17g, not %.17g\n",
                test->call, test->count, ls_dtype_name(dtype),
                ls_reduce_op_name(test->kind.redop),
                test->kind.premul ? ", premul" : "", test->line,
                ls_group_rank(test->group), ls_group_size(test->group),
                first + i, number_load(got, i, dtype),
                number_load(wanted, 0, dtype));
        abort();
    }
}

/* ---- the calls ----------------------------------------------------------- */

static unsigned char *filled(const test_case *test, size_t n)
{
    const size_t item = ls_dtype_size(test->kind.dtype);
    unsigned char *data = malloc((n + 1) * item);
    CHECK(data != NULL);
    for (size_t i = 0; i < n; i++)
        number_store(data, i, test->kind.dtype,
                     value(&test->kind, ls_group_rank(test->group), i));
    return data;
}

static void finish(ls_request *request)
{
    CHECK_OK(ls_wait(request));
    ls_request_free(&request);
}

static void all_reduce(test_case *test)
{
    const kind k = test->kind;
    const int rank = ls_group_rank(test->group);
    unsigned char *data = filled(test, test->count);
    ls_request *request = NULL;
    test->call = "all_reduce";
    if (k.premul) {
        CHECK_OK(ls_iall_reduce_premul(test->group, data, data, test->count,
                                       k.dtype, factor_of(rank), &request));
        finish(request);
    } else {
        CHECK_OK(ls_all_reduce(test->group, data, data, test->count, k.dtype,
                               k.redop));
    }
    check(test, data, 0, test->count);
    free(data);
}

static void reduce(test_case *test)
{
    const int root = (int)(test->count % (size_t)ls_group_size(test->group));
    unsigned char *data = filled(test, test->count);
    test->call = "reduce";
    CHECK_OK(ls_reduce(test->group, data, data, test->count, test->kind.dtype,
                       test->kind.redop, root));
    if (ls_group_rank(test->group) == root)
        check(test, data, 0, test->count);
    free(data);
}

static void reduce_scatter(test_case *test)
{
    const kind k = test->kind;
    const size_t size = (size_t)ls_group_size(test->group);
    const size_t rank = (size_t)ls_group_rank(test->group);
    const size_t block = test->count / size;
    unsigned char *send = filled(test, block * size);
    unsigned char *recv = filled(test, block);
    ls_request *request = NULL;
    test->call = "reduce_scatter";
    if (k.premul) {
        CHECK_OK(ls_ireduce_scatter_premul(test->group, send, recv, block,
                                           k.dtype, factor_of((int)rank),
                                           &request));
        finish(request);
    } else {
        CHECK_OK(ls_reduce_scatter(test->group, send, recv, block, k.dtype,
                                   k.redop));
    }
    check(test, recv, rank * block, block);
    free(recv);
    free(send);
}

/* Rank r has r parts of the sum of all ranks' numbers; rank 0 has none. */
static void reduce_scatterv(test_case *test)
{
    const size_t size = (size_t)ls_group_size(test->group);
    const size_t rank = (size_t)ls_group_rank(test->group);
    const size_t part = test->count / (size * (size - 1) / 2);
    size_t lengths[MOST_RANKS], begin = 0;
    for (size_t r = 0; r < size; r++) {
        lengths[r] = r * part;
        begin += r < rank ? lengths[r] : 0;
    }
    unsigned char *send = filled(test, test->count);
    unsigned char *recv = filled(test, lengths[rank]);
    test->call = "reduce_scatterv";
    CHECK_OK(ls_reduce_scatterv(test->group, send, recv, lengths,
                                test->kind.dtype, test->kind.redop));
    check(test, recv, begin, lengths[rank]);
    free(recv);
    free(send);
}

/* The reduction of strategies that divide the optimizer's state. */
static void reduce_shards(test_case *test)
{
    const size_t size = (size_t)ls_group_size(test->group);
    const size_t rank = (size_t)ls_group_rank(test->group);
    const lsi_shards shards = {.first = 7, .shard = test->count / size + 11};
    const lsi_cut cut = {.first = shards.first, .shard = shards.shard};
    const lsi_range own = lsi_cut_part(&cut, test->count, (int)size, (int)rank);
    const ls_dtype dtype = test->kind.dtype;
    unsigned char *data = filled(test, test->count);
    ls_request *request = NULL;
    test->call = "reduce_shards";
    CHECK_OK(lsi_reduce_shards_plan(
        test->group, (lsi_buffer){data, test->count, dtype}, shards, &request));
    CHECK_OK(ls_start(request));
    finish(request);
    check(test, data + own.begin * ls_dtype_size(dtype), own.begin,
          lsi_range_size(own));
    free(data);
}

static void run_kind(test_case *test)
{
    all_reduce(test);
    reduce_scatter(test);
    if (test->kind.premul)
        return;
    reduce(test);
    reduce_scatterv(test);
    if (test->kind.redop == LS_REDUCE_SUM)
        reduce_shards(test);
}

/* All kinds, or only the first and the fifth: f32 and halves. */
static void run_counts(test_case *test, int n, bool all,
                       void (*run)(test_case *test))
{
    for (int c = 0; c < n; c++)
        for (int k = 0; k < KINDS; k += all && c < FEW ? 1 : 4) {
            test->kind = kinds[k];
            test->count = counts[c];
            run(test);
        }
}

/* ---- groups -------------------------------------------------------------- */

static void select_line(test_case *test, const char *line)
{
    test->line = line;
    CHECK_OK(ls_group_select(test->group, line));
}

static const char all_by_nodes[] =
    "all_reduce:0-inf:nodes,reduce:0-inf:nodes,reduce_scatter:0-inf:nodes,"
    "reduce_shards:0-inf:nodes";
static const char all_in_cells[] =
    "all_reduce:0-32k:flat,reduce:0-32k:flat,reduce_scatter:0-32k:flat,"
    "reduce_shards:0-32k:flat";
static const char all_by_butterfly[] =
    "all_reduce:0-inf:butterfly,reduce:0-inf:butterfly,"
    "reduce_scatter:0-inf:butterfly,reduce_shards:0-inf:butterfly";

/* By the algorithms that a line can name. */
static void run_lines(test_case *test)
{
    const bool by_nodes = !test->group->select->deterministic;
    select_line(test, all_in_cells);
    run_counts(test, FEW, false, run_kind);
    select_line(test, all_by_butterfly);
    run_counts(test, FEW, false, run_kind);
    if (by_nodes) {
        select_line(test, all_by_nodes);
        run_counts(test, FEW, false, run_kind);
    }
    memset(test->place, 0, sizeof(test->place));
    select_line(test, "all_reduce:0-inf:halving");
    run_counts(test, FEW, false, all_reduce);
    select_line(test, "all_reduce:0-inf:doubling");
    run_counts(test, FEW, false, all_reduce);
}

static test_case case_of(ls_group *group, const int *place)
{
    test_case test = {.group = group, .line = ""};
    CHECK(lsi_spans_nodes(group));
    if (!group->select->deterministic)
        memcpy(test.place, place,
               (size_t)ls_group_size(group) * sizeof(*place));
    return test;
}

/* A group of the same ranks, in the order of their keys. */
static void run_split(ls_group *group, const int *place, int key)
{
    int keys[MOST_RANKS], moved[MOST_RANKS];
    const int size = ls_group_size(group);
    ls_group *other = NULL;
    CHECK_OK(ls_all_gather(group, &key, keys, 1, LS_I32));
    CHECK_OK(ls_group_split(group, 0, key, &other));
    for (int r = 0; r < size; r++) {
        int before = 0;
        for (int s = 0; s < size; s++)
            before += keys[s] < keys[r] || (keys[s] == keys[r] && s < r);
        moved[before] = place[r];
    }
    test_case test = case_of(other, moved);
    run_counts(&test, FEW, false, run_kind);
    ls_group_close(&other);
}

/* As placed, with the nodes reversed, and with neighbours on other nodes. */
static void run_orders(ls_group *group, const int *place)
{
    const int rank = ls_group_rank(group);
    int index = 0;
    for (int r = 0; r < rank; r++)
        index += place[r] == place[rank];
    test_case test = case_of(group, place);
    run_counts(&test, COUNTS, true, run_kind);
    run_lines(&test);
    run_split(group, place, -rank);
    run_split(group, place, index);
}

typedef struct shape {
    int nodes, ranks[MOST_RANKS]; /* on each node */
} shape;

static void places_of(const shape *s, int *place)
{
    for (int k = 0; k < s->nodes; k++)
        for (int i = 0; i < s->ranks[k]; i++)
            *place++ = k;
}

static void run_shape(ls_group *group, void *argument)
{
    int place[MOST_RANKS];
    places_of(argument, place);
    run_orders(group, place);
}

/* ---- tests --------------------------------------------------------------- */

static shape shapes[] = {{2, {2, 2}},
                         {3, {1, 1, 1}},
                         {4, {1, 1, 1, 1}},
                         {3, {2, 1, 3}},
                         {10, {1, 2, 1, 1, 1, 3, 1, 1, 1, 1}}};

enum { SHAPES = sizeof(shapes) / sizeof(shapes[0]) };

/* Otherwise these tests could not fail. */
static void orders_differ(void **state)
{
    (void)state;
    for (int k = 0; k < KINDS; k++) {
        test_case by_nodes = {.place = {0, 0, 1, 1}, .kind = kinds[k]};
        test_case by_ranks = {.kind = kinds[k]};
        int differ = 0;
        for (size_t i = 0; i < 1000; i++) {
            uint64_t a = 0, b = 0;
            number_store(&a, 0, kinds[k].dtype, expected(&by_nodes, 4, i));
            number_store(&b, 0, kinds[k].dtype, expected(&by_ranks, 4, i));
            differ += a != b;
        }
        assert_true(differ > 0);
    }
}

static void nodes_are_folded_one_by_one(void **state)
{
    (void)state;
    for (int s = 0; s < SHAPES; s++)
        run_nodes(shapes[s].ranks, shapes[s].nodes, run_shape, &shapes[s]);
}

static void deterministic_groups_ignore_nodes(void **state)
{
    (void)state;
    assert_int_equal(setenv("LOCKSTEP_DETERMINISTIC", "1", 1), 0);
    run_nodes(shapes[0].ranks, shapes[0].nodes, run_shape, &shapes[0]);
    run_nodes(shapes[3].ranks, shapes[3].nodes, run_shape, &shapes[3]);
    assert_int_equal(unsetenv("LOCKSTEP_DETERMINISTIC"), 0);
}

/* ---- places -------------------------------------------------------------- */

enum { SUMMED = 2000 };

static float summand(int rank, int i)
{
    const uint32_t bits = (uint32_t)(rank * SUMMED + i) * 2654435761U;
    return (float)(bits >> 8) * 0x1p-24F - 0.5F;
}

static float fold_places(const ls_group *group, int i, int first, int stride)
{
    if (first + stride >= ls_group_size(group))
        return summand(lsi_group_rank_at(group, first), i);
    return fold_places(group, i, first, 2 * stride) +
           fold_places(group, i, first + stride, 2 * stride);
}

/* The places of the first shape, and one sum in the order of all places. */
static void run_places(ls_group *group, void *argument)
{
    static const int of_two[] = {0, 2, 1, 3}; /* ranks 0, 1 on node 0 */
    const shape *const s = argument;
    const int size = ls_group_size(group), rank = ls_group_rank(group);
    float x[SUMMED];
    for (int r = 0; r < size; r++) {
        const int place = lsi_group_place(group, r);
        CHECK(place == (s == shapes ? of_two[r] : r));
        CHECK(lsi_group_rank_at(group, place) == r);
    }
    for (int count = 100; count <= SUMMED; count += SUMMED - 100) {
        for (int i = 0; i < count; i++)
            x[i] = summand(rank, i);
        CHECK_OK(
            ls_all_reduce(group, x, x, (size_t)count, LS_F32, LS_REDUCE_SUM));
        for (int i = 0; i < count; i++)
            CHECK(x[i] == fold_places(group, i, 0, 1));
    }
}

static void refuse_other_orders(ls_group *group, void *unused)
{
    (void)unused;
    for (const char *const *line =
             (const char *const[]){"all_reduce:0-inf:ring",
                                   "all_reduce:0-inf:doubling",
                                   "all_reduce:0-inf:halving", NULL};
         *line != NULL; line++) {
        CHECK(ls_group_select(group, *line) == LS_ERR_ARGUMENT);
        CHECK(strstr(ls_last_error(), "LOCKSTEP_BITS=portable") != NULL);
    }
    CHECK_OK(ls_group_select(group, "all_reduce:0-inf:nodes|halving"));
    run_places(group, shapes);
}

/* On any nodes under portable bits, and on equal ones otherwise. */
static void sums_fold_places(void **state)
{
    (void)state;
    run_nodes(shapes[0].ranks, shapes[0].nodes, run_places, &shapes[0]);
    CHECK_OK(ls_set_bits(LS_BITS_PORTABLE));
    for (int s = 0; s < SHAPES; s++)
        run_nodes(shapes[s].ranks, shapes[s].nodes, run_places, &shapes[s]);
    run_nodes(shapes[0].ranks, shapes[0].nodes, refuse_other_orders, NULL);
    CHECK_OK(ls_set_bits(LS_BITS_FAST));
}

/* As a rank that somebody else has started. */
static int run_as_rank(const char *on_hosts)
{
    shape s = {0};
    ls_group *group = NULL;
    for (const char *at = on_hosts; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        s.ranks[s.nodes++] = atoi(at);
    }
    CHECK_OK(ls_group_from_env(&group));
    run_shape(group, &s);
    ls_group_close(&group);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(orders_differ),
        cmocka_unit_test(nodes_are_folded_one_by_one),
        cmocka_unit_test(deterministic_groups_ignore_nodes),
        cmocka_unit_test(sums_fold_places),
    };
    if (argc > 2 && strcmp(argv[1], "rank") == 0)
        return run_as_rank(argv[2]);
    return cmocka_run_group_tests_name("node_orders", tests, NULL, NULL);
}

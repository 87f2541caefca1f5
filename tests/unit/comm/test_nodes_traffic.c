/*
 * Collectives between nodes: their results against exact sums, and the bytes
 * that each rank sends against a count that goes through the elements one by
 * one. Nodes of one size and of several, ranks that follow each other on a node
 * or take turns, vectors of which nobody, one rank or all own something.
 */
#include "testing.h"

#include <string.h>

#include "comm/api/request.h"
#include "comm/net/internode.h"
#include "lockstep/profile.h"
#include "nodes.h"

enum { MOST = 70001, NODES = 10 };

/* A vector of `count`, from element `first` of one cut into shards. */
typedef struct vector {
    size_t first, shard, count;
} vector;

static double value(int rank, size_t i)
{
    return (double)((i * 7 + (size_t)rank * 5) % 8);
}

static double sum_of(int size, size_t i)
{
    double sum = 0;
    for (int r = 0; r < size; r++)
        sum += value(r, i);
    return sum;
}

/* ---- what should be sent ------------------------------------------------- */

static int owner_of(const vector *v, size_t i)
{
    return (int)((v->first + i) / v->shard);
}

/* The first (step -1) or last (step 1) rank of the run of `rank`. */
static int end_of_run(const ls_group *group, int rank, int step)
{
    const int *node_of = group->net->node_of;
    while (rank + step >= 0 && rank + step < group->size &&
           node_of[rank + step] == node_of[rank])
        rank += step;
    return rank;
}

/* The rank of a node that carries element i, which is owned elsewhere. */
static int carrier_of(const ls_group *group, const vector *v, size_t i,
                      int node)
{
    const lsi_internode *net = group->net;
    const int owner = owner_of(v, i);
    const size_t first = (size_t)end_of_run(group, owner, -1) * v->shard;
    const size_t last = (size_t)(end_of_run(group, owner, 1) + 1) * v->shard;
    const size_t begin = first < v->first ? 0 : first - v->first;
    const size_t end = last > v->first + v->count ? v->count : last - v->first;
    const size_t ranks = (size_t)net->ranks_on[node];
    const size_t share = (end - begin + ranks - 1) / ranks;
    return net->rank[net->first[node] + (int)((i - begin) / share)];
}

/* Elements that this rank should send. */
static size_t to_be_sent(const ls_group *group, const vector *v, bool gathers)
{
    const lsi_internode *net = group->net;
    size_t sent = 0;
    for (size_t i = 0; i < v->count; i++) {
        const int owner = owner_of(v, i);
        if (owner >= group->size)
            continue;
        if (gathers)
            sent += owner == group->rank ? (size_t)net->nodes - 1 : 0;
        else if (net->node_of[owner] != net->node)
            sent += carrier_of(group, v, i, net->node) == group->rank;
    }
    return sent;
}

/* The total that crosses nodes: the data once for each receiving node. */
static void check_total(ls_group *group, const vector *v, size_t sent,
                        size_t unit)
{
    int64_t total = (int64_t)sent;
    size_t owned = 0;
    for (size_t i = 0; i < v->count; i++)
        owned += owner_of(v, i) < group->size;
    CHECK_OK(ls_all_reduce(group, &total, &total, 1, LS_I64, LS_REDUCE_SUM));
    CHECK((size_t)total == owned * (size_t)(group->net->nodes - 1) * unit);
}

/* ---- reduce-scatter ------------------------------------------------------ */

typedef struct kind {
    ls_dtype dtype;
    size_t unit; /* bytes of an element between nodes */
} kind;

static const kind kinds[] = {{LS_F32, 4}, {LS_F16, 4}, {LS_U8, 1}, {LS_F64, 8}};

static void store(void *data, size_t i, ls_dtype dtype, double x)
{
    static const uint16_t halves[] = {0,      0x3c00, 0x4000, 0x4200,
                                      0x4400, 0x4500, 0x4600, 0x4700};
    if (dtype == LS_F32)
        ((float *)data)[i] = (float)x;
    else if (dtype == LS_F64)
        ((double *)data)[i] = x;
    else if (dtype == LS_U8)
        ((uint8_t *)data)[i] = (uint8_t)x;
    else
        ((uint16_t *)data)[i] = halves[(int)x];
}

static double load(const void *data, size_t i, ls_dtype dtype)
{
    if (dtype == LS_F32)
        return (double)((const float *)data)[i];
    if (dtype == LS_F64)
        return ((const double *)data)[i];
    if (dtype == LS_U8)
        return ((const uint8_t *)data)[i];
    const int bits = ((const uint16_t *)data)[i], exponent = bits >> 10;
    const double fraction = 1 + (double)(bits & 1023) / 1024;
    return bits == 0 ? 0 : fraction * (double)(1 << exponent) / (1 << 15);
}

static void reduce_blocks(ls_group *group, size_t count, kind k, void *send)
{
    const int rank = group->rank, size = group->size;
    const vector v = {0, count, count * (size_t)size};
    unsigned char *own =
        (unsigned char *)send + (size_t)rank * count * ls_dtype_size(k.dtype);
    for (int in_place = 0; in_place < 2; in_place++) {
        unsigned char *recv = in_place ? own : malloc(count * 8 + 1);
        for (size_t i = 0; i < v.count; i++)
            store(send, i, k.dtype, value(rank, i));
        const size_t before = sent_by_wire();
        CHECK_OK(ls_reduce_scatter(group, send, recv, count, k.dtype,
                                   LS_REDUCE_SUM));
        const size_t sent = sent_by_wire() - before;
        CHECK(count == 0 || sent == to_be_sent(group, &v, false) * k.unit);
        if (count != 0)
            check_total(group, &v, sent, k.unit);
        for (size_t i = 0; i < count; i++)
            CHECK(load(recv, i, k.dtype) ==
                  sum_of(size, (size_t)rank * count + i));
        if (!in_place)
            free(recv);
    }
}

static void reduce_shards(ls_group *group, const vector *v, float *data)
{
    const int rank = group->rank, size = group->size;
    const lsi_shards shards = {v->first, v->shard};
    ls_request *request = NULL;
    CHECK_OK(lsi_reduce_shards_plan(group, (lsi_buffer){data, v->count, LS_F32},
                                    shards, &request));
    for (int repeat = 0; repeat < 2; repeat++) {
        const size_t before = sent_by_wire();
        for (size_t i = 0; i < v->count; i++)
            data[i] = (float)value(rank, i);
        CHECK_OK(ls_start(request));
        CHECK_OK(ls_wait(request));
        const size_t sent = sent_by_wire() - before;
        CHECK(sent == to_be_sent(group, v, false) * sizeof(float));
        check_total(group, v, sent, sizeof(float));
        for (size_t i = 0; i < v->count; i++)
            CHECK((double)data[i] ==
                  (owner_of(v, i) == rank ? sum_of(size, i) : value(rank, i)));
    }
    ls_request_free(&request);
}

static void reduce_all_kinds(ls_group *group)
{
    static const size_t counts[] = {0, 1, 15, 1000, 9001};
    static const vector vectors[] = {
        {0, 512, 0},     {0, 512, 1},        {100, 64, 350},
        {0, 100000, 80}, {9000, 9000, 9000}, {8500, 9000, 9100},
        {7, 13, 60},     {0, 20000, MOST},   {12345, 14000, 50000}};
    const size_t room = MOST * sizeof(double) * 2;
    void *data = NULL, *shared = NULL;
    CHECK_OK(ls_group_select(
        group, "reduce_scatter:0-inf:nodes,reduce_shards:0-inf:nodes"));
    CHECK_OK(ls_shared_alloc(group, room, &shared));
    CHECK((data = malloc(room)) != NULL);
    for (size_t i = 0; i < TEST_COUNT(counts); i++)
        for (size_t k = 0; k < TEST_COUNT(kinds); k++)
            reduce_blocks(group, counts[i], kinds[k], i % 2 ? data : shared);
    for (size_t i = 0; i < TEST_COUNT(vectors); i++)
        reduce_shards(group, &vectors[i], i % 2 ? data : shared);
    free(data);
    CHECK_OK(ls_shared_free(group, &shared));
}

/* ---- all-gather ---------------------------------------------------------- */

static void gather_blocks(ls_group *group, size_t count, kind k, void *recv)
{
    const int rank = group->rank, size = group->size;
    const size_t item = ls_dtype_size(k.dtype);
    const vector v = {0, count, count * (size_t)size};
    unsigned char *own = (unsigned char *)recv + (size_t)rank * count * item;
    for (int in_place = 0; in_place < 2; in_place++) {
        unsigned char *send = in_place ? own : malloc(count * item + 1);
        memset(recv, 0xa5, v.count * item);
        for (size_t i = 0; i < count; i++)
            store(send, i, k.dtype, value(rank, i));
        const size_t before = sent_by_wire();
        CHECK_OK(ls_all_gather(group, send, recv, count, k.dtype));
        const size_t sent = sent_by_wire() - before;
        CHECK(count == 0 || sent == to_be_sent(group, &v, true) * item);
        if (count != 0)
            check_total(group, &v, sent, item);
        for (size_t i = 0; i < v.count; i++)
            CHECK(load(recv, i, k.dtype) == value((int)(i / count), i % count));
        if (!in_place)
            free(send);
    }
}

static void gather_all_kinds(ls_group *group)
{
    static const size_t counts[] = {0, 1, 15, 1000, 70001};
    const size_t room = MOST * sizeof(double) * (size_t)group->size;
    void *data = NULL, *shared = NULL;
    CHECK_OK(ls_group_select(group, "all_gather:0-inf:nodes"));
    CHECK_OK(ls_shared_alloc(group, room, &shared));
    CHECK((data = malloc(room)) != NULL);
    for (size_t i = 0; i < TEST_COUNT(counts); i++)
        for (size_t k = 0; k < (counts[i] > 1000 ? 2 : TEST_COUNT(kinds)); k++)
            gather_blocks(group, counts[i], kinds[k], k % 2 ? data : shared);
    free(data);
    CHECK_OK(ls_shared_free(group, &shared));
}

/* ---- with a root --------------------------------------------------------- */

enum { LONG = 1700003 }; /* more chunks than are on the way at once */

static size_t total_of(ls_group *group, size_t sent)
{
    int64_t total = (int64_t)sent;
    CHECK_OK(ls_all_reduce(group, &total, &total, 1, LS_I64, LS_REDUCE_SUM));
    return (size_t)total;
}

static void broadcast(ls_group *group, size_t count, kind k, void *data)
{
    const size_t item = ls_dtype_size(k.dtype);
    const int size = group->size, root = (int)(count + item) % size;
    for (size_t i = 0; i < count; i++)
        store(data, i, k.dtype, value(group->rank, i));
    const size_t before = sent_by_wire();
    CHECK_OK(ls_broadcast(group, data, count, k.dtype, root));
    const size_t total = total_of(group, sent_by_wire() - before);
    CHECK(total == (size_t)(group->net->nodes - 1) * count * item);
    for (size_t i = 0; i < count; i++)
        CHECK(load(data, i, k.dtype) == value(root, i));
}

/*
 * All but the root's node give all away, as sums; the parts that others have
 * added up go to the root's node.
 */
static void reduce(ls_group *group, size_t count, kind k, void *data)
{
    const size_t item = ls_dtype_size(k.dtype);
    const int size = group->size, root = (int)(count + item) % size;
    const size_t nodes = (size_t)group->net->nodes;
    for (int in_place = 0; in_place < 2; in_place++) {
        void *recv = in_place ? data : malloc(count * item + 1);
        for (size_t i = 0; i < count; i++)
            store(data, i, k.dtype, value(group->rank, i));
        const size_t before = sent_by_wire();
        CHECK_OK(ls_reduce(group, data, group->rank == root ? recv : NULL,
                           count, k.dtype, LS_REDUCE_SUM, root));
        const size_t total = total_of(group, sent_by_wire() - before);
        CHECK(total >= (nodes - 1) * count * k.unit);
        CHECK(nodes > 8 ||
              total <= (nodes - 1) * count * k.unit + count * item);
        for (size_t i = 0; i < count && group->rank == root; i++)
            CHECK(load(recv, i, k.dtype) == sum_of(size, i));
        for (size_t i = 0; i < count && group->rank != root; i++)
            CHECK(load(data, i, k.dtype) == value(group->rank, i));
        if (!in_place)
            free(recv);
    }
}

static void try_roots(ls_group *group)
{
    static const size_t counts[] = {0, 1, 15, 1001, 9002, 70001};
    void *data = NULL, *shared = NULL;
    CHECK_OK(
        ls_group_select(group, "broadcast:0-inf:nodes,reduce:0-inf:nodes"));
    CHECK_OK(ls_shared_alloc(group, LONG * sizeof(float), &shared));
    CHECK((data = malloc(LONG * sizeof(float))) != NULL);
    for (size_t i = 0; i < TEST_COUNT(counts); i++)
        for (size_t k = 0; k < TEST_COUNT(kinds); k++) {
            broadcast(group, counts[i], kinds[k], (i + k) % 2 ? data : shared);
            reduce(group, counts[i], kinds[k], (i + k) % 2 ? data : shared);
        }
    for (int i = 0; i < (group->size == 4 ? 2 : 0); i++) {
        broadcast(group, LONG + (size_t)i - 1, kinds[0], i ? data : shared);
        reduce(group, LONG + (size_t)i - 1, kinds[0], i ? data : shared);
    }
    free(data);
    CHECK_OK(ls_shared_free(group, &shared));
}

/* ---- shapes -------------------------------------------------------------- */

static void try_all(ls_group *group)
{
    reduce_all_kinds(group);
    gather_all_kinds(group);
    try_roots(group);
}

/* As it is, backwards, and with neighbours on different nodes. */
static void in_any_order(ls_group *group, void *unused)
{
    const lsi_internode *net = group->net;
    ls_group *backwards = NULL, *in_turn = NULL;
    (void)unused;
    try_all(group);
    CHECK_OK(ls_group_split(group, 0, -group->rank, &backwards));
    try_all(backwards);
    ls_group_close(&backwards);
    const int turn = net->index_of[group->rank] * net->nodes + net->node;
    CHECK_OK(ls_group_split(group, 0, turn, &in_turn));
    try_all(in_turn);
    ls_group_close(&in_turn);
}

static void once_to_each_node(void **state)
{
    static const int shapes[][NODES] = {{1, 1}, {2, 2}, {2, 1, 3}, {1, 4}};
    static const int nodes[] = {2, 2, 3, 2};
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(nodes); i++)
        run_nodes(shapes[i], nodes[i], in_any_order, NULL);
}

static void once(ls_group *group, void *unused)
{
    (void)unused;
    try_all(group);
}

static void many_nodes(void **state)
{
    static const int ranks[NODES] = {1, 2, 1, 1, 1, 1, 1, 1, 1, 1};
    (void)state;
    run_nodes(ranks, NODES, once, NULL);
}

/* ---- several at once ----------------------------------------------------- */

/* Buckets of one vector, as they come out of a backward pass. */
static void reduce_buckets(ls_group *group, void *unused)
{
    enum { BUCKETS = 5, COUNT = 13000 };
    ls_request *requests[BUCKETS] = {NULL};
    float *data = malloc(BUCKETS * COUNT * sizeof(float));
    const size_t shard = 17000;
    const int rank = group->rank;
    (void)unused;
    for (size_t b = 0; b < BUCKETS; b++)
        CHECK_OK(lsi_reduce_shards_plan(
            group, (lsi_buffer){data + b * COUNT, COUNT, LS_F32},
            (lsi_shards){b * COUNT, shard}, &requests[b]));
    for (int repeat = 0; repeat < 3; repeat++) {
        for (size_t i = 0; i < BUCKETS * COUNT; i++)
            data[i] = (float)value(rank, i);
        for (size_t b = BUCKETS; b-- > 0;)
            CHECK_OK(ls_start(requests[b]));
        for (size_t b = 0; b < BUCKETS; b++)
            CHECK_OK(ls_wait(requests[b]));
        for (size_t i = 0; i < BUCKETS * COUNT; i++)
            CHECK((double)data[i] == (i / shard == (size_t)rank
                                          ? sum_of(group->size, i)
                                          : value(rank, i)));
    }
    for (size_t b = 0; b < BUCKETS; b++)
        ls_request_free(&requests[b]);
    free(data);
}

static void buckets_are_in_flight_together(void **state)
{
    (void)state;
    run_nodes((const int[]){2, 2}, 2, reduce_buckets, NULL);
    run_nodes((const int[]){2, 1, 3}, 3, reduce_buckets, NULL);
}

/* ---- scratch memory ------------------------------------------------------ */

/* Bytes of all ranks. */
static size_t comm_bytes(ls_group *group)
{
    ls_memory_stats stats;
    CHECK_OK(ls_barrier(group));
    ls_memory_of(LS_MEMORY_COMM, &stats);
    CHECK_OK(ls_barrier(group));
    return stats.live_bytes;
}

static void reduce_in_turn(ls_group *group, void *unused)
{
    enum { BUCKETS = 8, COUNT = 50000 };
    ls_request *requests[BUCKETS] = {NULL};
    float *data = calloc(COUNT, sizeof(float));
    const size_t before = comm_bytes(group);
    size_t one = 0;
    (void)unused;
    for (int b = 0; b < BUCKETS; b++) {
        CHECK_OK(lsi_reduce_shards_plan(group,
                                        (lsi_buffer){data, COUNT, LS_F32},
                                        (lsi_shards){0, 30000}, &requests[b]));
        if (b == 0)
            one = comm_bytes(group) - before;
    }
    for (int b = 0; b < BUCKETS; b++) {
        CHECK_OK(ls_start(requests[b]));
        CHECK_OK(ls_wait(requests[b]));
    }
    CHECK(one > COUNT * sizeof(float));
    CHECK(comm_bytes(group) - before < one + one / 2);
    for (int b = 0; b < BUCKETS; b++)
        ls_request_free(&requests[b]);
    free(data);
}

static void buckets_in_turn_share_memory(void **state)
{
    (void)state;
    run_nodes((const int[]){1, 1}, 2, reduce_in_turn, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(once_to_each_node),
        cmocka_unit_test(many_nodes),
        cmocka_unit_test(buckets_are_in_flight_together),
        cmocka_unit_test(buckets_in_turn_share_memory),
    };
    return cmocka_run_group_tests_name("nodes_traffic", tests, NULL, NULL);
}

/*
 * Random collectives on several groups at once, from two threads of each rank,
 * with every element checked. They include all operations, short and long, in
 * and out of place, with requests in flight. The calls of ranks follow from
 * random numbers that they share, so no call may be taken for a disagreement.
 * The program's argument says how many calls, a second one which random
 * numbers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <pthread.h>

#include <cmocka.h>

#include "../../unit/comm/ranks.h"
#include "base/rng.h"

enum { DEFAULT_CALLS = 1000, MOST = 3000, MOST_RANKS = 8, IN_FLIGHT = 3 };

static lsi_rng_key key = {7, 11};
static uint64_t n_calls = DEFAULT_CALLS;

/* A thread of a rank: all ranks of the job, and about half of them. */
typedef struct player {
    pthread_t thread;
    ls_group *all, *half;
    uint64_t stream; /* the same for all ranks */
    int64_t *send, *recv;
} player;

typedef struct call {
    ls_group *group;
    uint64_t number;
    size_t count;
    int rank, size, root;
    bool in_place;
    int64_t *send, *recv;
} call;

static uint64_t pick(const player *p, uint64_t i, uint64_t which,
                     uint64_t bound)
{
    return lsi_rng_below(key, p->stream, 8 * i + which, bound);
}

static int64_t value(const call *c, int rank, size_t i)
{
    return (int64_t)((c->number * 31 + (uint64_t)rank * 1009 + i * 17) % 4001) -
           2000;
}

static int64_t sum(const call *c, size_t i)
{
    int64_t total = 0;
    for (int r = 0; r < c->size; r++)
        total += value(c, r, i);
    return total;
}

static void fill(const call *c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        c->send[i] = value(c, c->rank, i);
}

static int64_t *block(const call *c, int64_t *data, int rank)
{
    return data + (size_t)rank * c->count;
}

/* Where a whole vector comes out. */
static int64_t *result(const call *c)
{
    return c->in_place ? c->send : c->recv;
}

static void all_reduce(const call *c)
{
    int64_t *to = result(c);
    fill(c, c->count);
    CHECK_OK(
        ls_all_reduce(c->group, c->send, to, c->count, LS_I64, LS_REDUCE_SUM));
    for (size_t i = 0; i < c->count; i++)
        CHECK(to[i] == sum(c, i));
}

/* Other types and reductions: bytes, of which the largest wins. */
static void largest(const call *c)
{
    unsigned char *data = (unsigned char *)c->send;
    for (size_t i = 0; i < c->count; i++)
        data[i] = (unsigned char)value(c, c->rank, i);
    CHECK_OK(
        ls_all_reduce(c->group, data, data, c->count, LS_U8, LS_REDUCE_MAX));
    for (size_t i = 0; i < c->count; i++) {
        unsigned char wanted = 0;
        for (int r = 0; r < c->size; r++)
            if ((unsigned char)value(c, r, i) > wanted)
                wanted = (unsigned char)value(c, r, i);
        CHECK(data[i] == wanted);
    }
}

static void reduce(const call *c)
{
    int64_t *to = c->rank == c->root ? result(c) : NULL;
    fill(c, c->count);
    CHECK_OK(ls_reduce(c->group, c->send, to, c->count, LS_I64, LS_REDUCE_SUM,
                       c->root));
    for (size_t i = 0; i < c->count && to != NULL; i++)
        CHECK(to[i] == sum(c, i));
}

static void broadcast(const call *c)
{
    fill(c, c->count);
    CHECK_OK(ls_broadcast(c->group, c->send, c->count, LS_I64, c->root));
    for (size_t i = 0; i < c->count; i++)
        CHECK(c->send[i] == value(c, c->root, i));
}

static void check_gathered(const call *c)
{
    for (size_t i = 0; i < c->count * (size_t)c->size; i++)
        CHECK(c->recv[i] == value(c, (int)(i / c->count), i % c->count));
}

/* The block that a rank gives to a gather. */
static int64_t *given(const call *c)
{
    int64_t *own = block(c, c->recv, c->rank);
    fill(c, c->count);
    if (!c->in_place)
        return c->send;
    memcpy(own, c->send, c->count * sizeof(*own));
    return own;
}

static void all_gather(const call *c)
{
    CHECK_OK(ls_all_gather(c->group, given(c), c->recv, c->count, LS_I64));
    check_gathered(c);
}

static void gather(const call *c)
{
    const bool gets = c->rank == c->root;
    CHECK_OK(ls_gather(c->group, given(c), gets ? c->recv : NULL, c->count,
                       LS_I64, c->root));
    if (gets)
        check_gathered(c);
}

static void scatter(const call *c)
{
    const bool gives = c->rank == c->root;
    int64_t *to = gives && c->in_place ? block(c, c->send, c->rank) : c->recv;
    fill(c, c->count * (size_t)c->size);
    CHECK_OK(ls_scatter(c->group, gives ? c->send : NULL, to, c->count, LS_I64,
                        c->root));
    for (size_t i = 0; i < c->count; i++)
        CHECK(to[i] == value(c, c->root, (size_t)c->rank * c->count + i));
}

static void reduce_scatter(const call *c)
{
    int64_t *to = c->in_place ? block(c, c->send, c->rank) : c->recv;
    fill(c, c->count * (size_t)c->size);
    CHECK_OK(ls_reduce_scatter(c->group, c->send, to, c->count, LS_I64,
                               LS_REDUCE_SUM));
    for (size_t i = 0; i < c->count; i++)
        CHECK(to[i] == sum(c, (size_t)c->rank * c->count + i));
}

static void all_to_all(const call *c)
{
    const size_t own = (size_t)c->rank * c->count;
    int64_t *to = result(c);
    fill(c, c->count * (size_t)c->size);
    CHECK_OK(ls_all_to_all(c->group, c->send, to, c->count, LS_I64));
    for (size_t i = 0; i < c->count * (size_t)c->size; i++)
        CHECK(to[i] == value(c, (int)(i / c->count), own + i % c->count));
}

static void finish(ls_request *request)
{
    CHECK_OK(ls_wait(request));
    ls_request_free(&request);
}

static void around(const call *c)
{
    const int left = (c->rank + c->size - 1) % c->size;
    ls_request *send = NULL, *receive = NULL;
    fill(c, c->count);
    CHECK_OK(ls_isend(c->group, c->send, c->count, LS_I64,
                      (c->rank + 1) % c->size, 0, &send));
    CHECK_OK(ls_irecv(c->group, c->recv, c->count, LS_I64, left, 0, &receive));
    finish(send);
    finish(receive);
    for (size_t i = 0; i < c->count; i++)
        CHECK(c->recv[i] == value(c, left, i));
}

/* ---- counts of their own ------------------------------------------------- */

/* Elements that go from one rank to another, or that a rank has. */
static size_t part(const call *c, int from, int to)
{
    const size_t mix = (size_t)from * 3 + (size_t)to * 5 + c->number;
    return c->count * (mix % 4) / 3;
}

/* The parts of all ranks; returns where this rank's begins. */
static size_t parts(const call *c, size_t counts[MOST_RANKS])
{
    size_t own = 0;
    for (int r = 0; r < c->size; r++) {
        counts[r] = part(c, r, 0);
        own += r < c->rank ? counts[r] : 0;
    }
    return own;
}

static void all_gatherv(const call *c)
{
    size_t counts[MOST_RANKS];
    const size_t own = parts(c, counts), n = counts[c->rank];
    int64_t *send = c->in_place ? c->recv + own : c->send;
    const int64_t *at = c->recv;
    for (size_t i = 0; i < n; i++)
        send[i] = value(c, c->rank, i);
    CHECK_OK(ls_all_gatherv(c->group, send, n, c->recv, counts, LS_I64));
    for (int r = 0; r < c->size; r++)
        for (size_t i = 0; i < counts[r]; i++)
            CHECK(*at++ == value(c, r, i));
}

static void reduce_scatterv(const call *c)
{
    size_t counts[MOST_RANKS];
    const size_t own = parts(c, counts);
    int64_t *to = c->in_place ? c->send + own : c->recv;
    ls_request *request = NULL;
    fill(c, c->count * (size_t)c->size);
    if (c->number % 2 == 0) {
        CHECK_OK(ls_reduce_scatterv(c->group, c->send, to, counts, LS_I64,
                                    LS_REDUCE_SUM));
    } else {
        CHECK_OK(ls_ireduce_scatterv(c->group, c->send, to, counts, LS_I64,
                                     LS_REDUCE_SUM, &request));
        finish(request);
    }
    for (size_t i = 0; i < counts[c->rank]; i++)
        CHECK(to[i] == sum(c, own + i));
}

/* Between two ranks as much goes as comes, if it is in place. */
static size_t traded(const call *c, int from, int to)
{
    const bool turn = c->in_place && from > to;
    return turn ? part(c, to, from) : part(c, from, to);
}

static void all_to_allv(const call *c)
{
    size_t sends[MOST_RANKS], receives[MOST_RANKS];
    const int64_t *at = result(c);
    ls_request *request = NULL;
    fill(c, c->count * (size_t)c->size);
    for (int r = 0; r < c->size; r++) {
        sends[r] = traded(c, c->rank, r);
        receives[r] = traded(c, r, c->rank);
    }
    CHECK_OK(ls_iall_to_allv(c->group, c->send, sends, result(c), receives,
                             LS_I64, &request));
    finish(request);
    for (int r = 0; r < c->size; r++) {
        size_t first = 0; /* of what that rank sends here */
        for (int before = 0; before < c->rank; before++)
            first += traded(c, r, before);
        for (size_t i = 0; i < receives[r]; i++)
            CHECK(*at++ == value(c, r, first + i));
    }
}

/* ---- other types and factors --------------------------------------------- */

/* Bytes that are true or not: whether any, or all, are. */
static void truths(const call *c)
{
    unsigned char *data = (unsigned char *)c->send;
    unsigned char *to = (unsigned char *)result(c);
    const bool all = c->number % 2 == 0;
    for (size_t i = 0; i < c->count; i++)
        data[i] = (unsigned char)(value(c, c->rank, i) % 3);
    CHECK_OK(ls_all_reduce(c->group, data, to, c->count, LS_BOOL,
                           all ? LS_REDUCE_BAND : LS_REDUCE_SUM));
    for (size_t i = 0; i < c->count; i++) {
        int n = 0;
        for (int r = 0; r < c->size; r++)
            n += value(c, r, i) % 3 != 0;
        CHECK(to[i] == (all ? n == c->size : n > 0));
    }
}

/* Each rank multiplies by a different factor; whole numbers are exact. */
static void multiplied(const call *c)
{
    const bool scatters = c->number % 2 == 0;
    const size_t n = c->count * (scatters ? (size_t)c->size : 1);
    const size_t own = scatters ? (size_t)c->rank * c->count : 0;
    double *send = (double *)c->send;
    double *to = c->in_place ? send + own : (double *)c->recv;
    ls_request *request = NULL;
    for (size_t i = 0; i < n; i++)
        send[i] = (double)value(c, c->rank, i);
    if (scatters)
        CHECK_OK(ls_ireduce_scatter_premul(c->group, send, to, c->count, LS_F64,
                                           c->rank + 1, &request));
    else
        CHECK_OK(ls_iall_reduce_premul(c->group, send, to, c->count, LS_F64,
                                       c->rank + 1, &request));
    finish(request);
    for (size_t i = 0; i < c->count; i++) {
        double wanted = 0;
        for (int r = 0; r < c->size; r++)
            wanted += (double)((r + 1) * value(c, r, own + i));
        CHECK(to[i] == wanted);
    }
}

/* ---- messages ------------------------------------------------------------ */

/* Three to the next rank, which takes the last first. */
static void tagged(const call *c)
{
    enum { TAGS = 3 };
    const int left = (c->rank + c->size - 1) % c->size;
    ls_request *sends[TAGS], *receive = NULL;
    fill(c, c->count * TAGS);
    for (int t = 0; t < TAGS; t++)
        CHECK_OK(ls_isend(c->group, c->send + (size_t)t * c->count, c->count,
                          LS_I64, (c->rank + 1) % c->size, t, &sends[t]));
    for (int t = TAGS - 1; t >= 0; t--) {
        CHECK_OK(
            ls_irecv(c->group, c->recv, c->count, LS_I64, left, t, &receive));
        finish(receive);
        for (size_t i = 0; i < c->count; i++)
            CHECK(c->recv[i] == value(c, left, (size_t)t * c->count + i));
    }
    for (int t = 0; t < TAGS; t++)
        finish(sends[t]);
}

/* From all to one, who asks who has sent what. Its tag is of this call alone:
   some are in their next call already. */
static void letters(const call *c)
{
    const int tag = (int)c->number;
    ls_request *request = NULL;
    fill(c, c->count);
    CHECK_OK(ls_isend(c->group, c->send, part(c, c->rank, c->root), LS_I64,
                      c->root, tag, &request));
    for (int n = 0; n < c->size && c->rank == c->root; n++) {
        ls_request *receive = NULL;
        int source = -1, found = -1;
        size_t bytes = 0;
        CHECK_OK(ls_probe(c->group, LS_ANY_RANK, tag, &source, &found, &bytes));
        const size_t count = part(c, source, c->root);
        CHECK(found == tag && bytes == count * sizeof(int64_t));
        CHECK_OK(ls_irecv(c->group, c->recv, count, LS_I64, source, LS_ANY_TAG,
                          &receive));
        finish(receive);
        for (size_t i = 0; i < count; i++)
            CHECK(c->recv[i] == value(c, source, i));
    }
    finish(request);
}

/* Planned ones, all started, with another call behind them. */
static void in_flight(const call *c)
{
    ls_request *requests[IN_FLIGHT];
    const size_t each = c->count / IN_FLIGHT;
    int64_t *to = result(c);
    fill(c, c->count);
    for (size_t q = 0; q < IN_FLIGHT; q++) {
        CHECK_OK(ls_all_reduce_plan(c->group, c->send + q * each, to + q * each,
                                    each, LS_I64, LS_REDUCE_SUM, &requests[q]));
        CHECK_OK(ls_start(requests[q]));
    }
    CHECK_OK(ls_barrier(c->group));
    for (int q = IN_FLIGHT - 1; q >= 0; q--) {
        finish(requests[q]);
    }
    for (size_t i = 0; i < each * IN_FLIGHT; i++)
        CHECK(to[i] == sum(c, i));
}

static void barrier(const call *c)
{
    CHECK_OK(ls_barrier(c->group));
}

static void (*const calls[])(const call *c) = {
    all_reduce, largest,    reduce,         broadcast,       all_gather,
    gather,     scatter,    reduce_scatter, all_to_all,      around,
    in_flight,  barrier,    all_gatherv,    reduce_scatterv, all_to_allv,
    truths,     multiplied, tagged,         letters};

/* Mostly short, sometimes beyond what a cell holds. */
static size_t pick_count(const player *p, uint64_t i)
{
    const uint64_t most = pick(p, i, 1, 5) == 0 ? MOST : 40;
    return pick(p, i, 2, most);
}

static call pick_call(const player *p, uint64_t i)
{
    ls_group *group = pick(p, i, 5, 3) == 0 ? p->half : p->all;
    const int size = ls_group_size(group);
    /* Halves may differ in size; roots are there in both. */
    const int roots = ls_group_size(p->all) / 2;
    return (call){.group = group,
                  .number = i,
                  .count = pick_count(p, i),
                  .rank = ls_group_rank(group),
                  .size = size,
                  .root = (int)pick(p, i, 3, roots == 0 ? 1 : (uint64_t)roots),
                  .in_place = pick(p, i, 4, 2) == 0,
                  .send = p->send,
                  .recv = p->recv};
}

static void *play(void *context)
{
    player *p = context;
    const size_t room = (MOST + 1) * sizeof(int64_t) * MOST_RANKS;
    p->send = malloc(room);
    p->recv = malloc(room);
    for (uint64_t i = 0; i < n_calls; i++) {
        const call c = pick_call(p, i);
        calls[pick(p, i, 0, sizeof(calls) / sizeof(calls[0]))](&c);
    }
    free(p->send);
    free(p->recv);
    return NULL;
}

static void several_groups(ls_group *group, void *argument)
{
    player players[2] = {{.all = group, .stream = 1}, {.stream = 2}};
    const int size = ls_group_size(group), rank = ls_group_rank(group);
    (void)argument;
    CHECK(size <= MOST_RANKS);
    /* The other thread's group has the ranks in the opposite order. */
    CHECK_OK(ls_group_split(group, 0, size - rank, &players[1].all));
    for (int i = 0; i < 2; i++)
        CHECK_OK(ls_group_split(group, rank % 2, 0, &players[i].half));
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&players[i].thread, NULL, play, &players[i]) == 0);
    for (int i = 0; i < 2; i++)
        pthread_join(players[i].thread, NULL);
    for (int i = 0; i < 2; i++)
        ls_group_close(&players[i].half);
    ls_group_close(&players[1].all);
}

static void random_calls_on_threads(void **state)
{
    (void)state;
    run_threads(2, several_groups, NULL);
    run_threads(3, several_groups, NULL);
}

static void random_calls_on_processes(void **state)
{
    (void)state;
    run_processes(2, several_groups, NULL);
    run_processes(4, several_groups, NULL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_calls_on_threads),
        cmocka_unit_test(random_calls_on_processes),
    };
    if (argc > 1)
        n_calls = strtoull(argv[1], NULL, 10);
    if (argc > 2)
        key.seed = strtoull(argv[2], NULL, 10);
    return cmocka_run_group_tests_name("random", tests, NULL, NULL);
}

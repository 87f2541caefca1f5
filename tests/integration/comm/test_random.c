/*
 * Random collectives on several groups at once, from two threads of each rank,
 * with every element checked: all operations, short and long, in and out of
 * place, with requests in flight. What ranks do at a time follows from random
 * numbers that they share, so no call may be taken for a disagreement. The
 * program's argument says how many calls.
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

static const lsi_rng_key key = {7, 11};
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
    CHECK_OK(ls_all_reduce(c->group, c->send, to, c->count, LS_I64, LS_SUM));
    for (size_t i = 0; i < c->count; i++)
        CHECK(to[i] == sum(c, i));
}

/* Other types and reductions: bytes, of which the largest wins. */
static void largest(const call *c)
{
    unsigned char *data = (unsigned char *)c->send;
    for (size_t i = 0; i < c->count; i++)
        data[i] = (unsigned char)value(c, c->rank, i);
    CHECK_OK(ls_all_reduce(c->group, data, data, c->count, LS_U8, LS_MAX));
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
    CHECK_OK(
        ls_reduce(c->group, c->send, to, c->count, LS_I64, LS_SUM, c->root));
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
    CHECK_OK(
        ls_reduce_scatter(c->group, c->send, to, c->count, LS_I64, LS_SUM));
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

static void around(const call *c)
{
    const int left = (c->rank + c->size - 1) % c->size;
    ls_request *send = NULL, *receive = NULL;
    fill(c, c->count);
    CHECK_OK(ls_isend(c->group, c->send, c->count, LS_I64,
                      (c->rank + 1) % c->size, &send));
    CHECK_OK(ls_irecv(c->group, c->recv, c->count, LS_I64, left, &receive));
    CHECK_OK(ls_wait(send));
    CHECK_OK(ls_wait(receive));
    for (size_t i = 0; i < c->count; i++)
        CHECK(c->recv[i] == value(c, left, i));
    ls_request_free(&send);
    ls_request_free(&receive);
}

/* Planned ones, all started, with another call behind them. */
static void in_flight(const call *c)
{
    ls_request *requests[IN_FLIGHT];
    const size_t part = c->count / IN_FLIGHT;
    int64_t *to = result(c);
    fill(c, c->count);
    for (size_t q = 0; q < IN_FLIGHT; q++) {
        CHECK_OK(ls_all_reduce_plan(c->group, c->send + q * part, to + q * part,
                                    part, LS_I64, LS_SUM, &requests[q]));
        CHECK_OK(ls_start(requests[q]));
    }
    CHECK_OK(ls_barrier(c->group));
    for (int q = IN_FLIGHT - 1; q >= 0; q--) {
        CHECK_OK(ls_wait(requests[q]));
        ls_request_free(&requests[q]);
    }
    for (size_t i = 0; i < part * IN_FLIGHT; i++)
        CHECK(to[i] == sum(c, i));
}

static void barrier(const call *c)
{
    CHECK_OK(ls_barrier(c->group));
}

static void (*const calls[])(const call *c) = {
    all_reduce, largest,        reduce,     broadcast, all_gather, gather,
    scatter,    reduce_scatter, all_to_all, around,    in_flight,  barrier};

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
    return cmocka_run_group_tests_name("random", tests, NULL, NULL);
}

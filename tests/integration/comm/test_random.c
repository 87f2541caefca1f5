/*
 * Random collectives on two groups at once, each used by a thread of its own,
 * with every element checked. LOCKSTEP_TEST_CALLS sets how many calls.
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

typedef struct player {
    pthread_t thread;
    ls_group *group;
    uint64_t stream; /* the same for all ranks of a group */
    int64_t *send, *recv;
    uint64_t calls;
} player;

typedef struct call {
    uint64_t number;
    size_t count;
    int root;
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

static int64_t sum(const call *c, int size, size_t i)
{
    int64_t total = 0;
    for (int r = 0; r < size; r++)
        total += value(c, r, i);
    return total;
}

static void fill(player *p, const call *c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p->send[i] = value(c, ls_group_rank(p->group), i);
}

static void all_reduce(player *p, const call *c)
{
    fill(p, c, c->count);
    CHECK_OK(
        ls_all_reduce(p->group, p->send, p->recv, c->count, LS_I64, LS_SUM));
    for (size_t i = 0; i < c->count; i++)
        CHECK(p->recv[i] == sum(c, ls_group_size(p->group), i));
}

static void broadcast(player *p, const call *c)
{
    fill(p, c, c->count);
    CHECK_OK(ls_broadcast(p->group, p->send, c->count, LS_I64, c->root));
    for (size_t i = 0; i < c->count; i++)
        CHECK(p->send[i] == value(c, c->root, i));
}

static void all_gather(player *p, const call *c)
{
    fill(p, c, c->count);
    CHECK_OK(ls_all_gather(p->group, p->send, p->recv, c->count, LS_I64));
    for (size_t i = 0; i < c->count * (size_t)ls_group_size(p->group); i++)
        CHECK(p->recv[i] == value(c, (int)(i / c->count), i % c->count));
}

static void reduce_scatter(player *p, const call *c)
{
    const size_t size = (size_t)ls_group_size(p->group);
    const size_t own = (size_t)ls_group_rank(p->group) * c->count;
    fill(p, c, c->count * size);
    CHECK_OK(ls_reduce_scatter(p->group, p->send, p->recv, c->count, LS_I64,
                               LS_SUM));
    for (size_t i = 0; i < c->count; i++)
        CHECK(p->recv[i] == sum(c, (int)size, own + i));
}

static void all_to_all(player *p, const call *c)
{
    const size_t size = (size_t)ls_group_size(p->group);
    const size_t own = (size_t)ls_group_rank(p->group) * c->count;
    fill(p, c, c->count * size);
    CHECK_OK(ls_all_to_all(p->group, p->send, p->recv, c->count, LS_I64));
    for (size_t i = 0; i < c->count * size; i++)
        CHECK(p->recv[i] == value(c, (int)(i / c->count), own + i % c->count));
}

static void around(player *p, const call *c)
{
    const int rank = ls_group_rank(p->group), size = ls_group_size(p->group);
    const int left = (rank + size - 1) % size;
    ls_request *send = NULL, *receive = NULL;
    fill(p, c, c->count);
    CHECK_OK(ls_isend(p->group, p->send, c->count, LS_I64, (rank + 1) % size,
                      &send));
    CHECK_OK(ls_irecv(p->group, p->recv, c->count, LS_I64, left, &receive));
    CHECK_OK(ls_wait(send));
    CHECK_OK(ls_wait(receive));
    for (size_t i = 0; i < c->count; i++)
        CHECK(p->recv[i] == value(c, left, i));
    ls_request_free(&send);
    ls_request_free(&receive);
}

static void in_flight(player *p, const call *c)
{
    ls_request *requests[IN_FLIGHT];
    const size_t part = c->count / IN_FLIGHT;
    fill(p, c, c->count);
    for (size_t q = 0; q < IN_FLIGHT; q++) {
        CHECK_OK(ls_all_reduce_plan(p->group, p->send + q * part,
                                    p->recv + q * part, part, LS_I64, LS_SUM,
                                    &requests[q]));
        CHECK_OK(ls_start(requests[q]));
    }
    for (int q = IN_FLIGHT - 1; q >= 0; q--) {
        CHECK_OK(ls_wait(requests[q]));
        ls_request_free(&requests[q]);
    }
    for (size_t i = 0; i < part * IN_FLIGHT; i++)
        CHECK(p->recv[i] == sum(c, ls_group_size(p->group), i));
}

static void barrier(player *p, const call *c)
{
    (void)c;
    CHECK_OK(ls_barrier(p->group));
}

static void (*const calls[])(player *p, const call *c) = {
    all_reduce, broadcast, all_gather, reduce_scatter,
    all_to_all, around,    in_flight,  barrier};

/* Mostly short, sometimes beyond what a cell holds. */
static size_t pick_count(const player *p, uint64_t i)
{
    const uint64_t most = pick(p, i, 1, 5) == 0 ? MOST : 40;
    return pick(p, i, 2, most);
}

static void *play(void *context)
{
    player *p = context;
    const size_t room = (MOST + 1) * sizeof(int64_t) * MOST_RANKS;
    p->send = malloc(room);
    p->recv = malloc(room);
    for (uint64_t i = 0; i < p->calls; i++) {
        const uint64_t which = pick(p, i, 0, sizeof(calls) / sizeof(calls[0]));
        const call c = {i, pick_count(p, i),
                        (int)pick(p, i, 3, (uint64_t)ls_group_size(p->group))};
        calls[which](p, &c);
    }
    free(p->send);
    free(p->recv);
    return NULL;
}

static void two_groups(ls_group *group, void *argument)
{
    player players[2] = {{.group = group, .stream = 1},
                         {.group = NULL, .stream = 2}};
    const int size = ls_group_size(group);
    CHECK(size <= MOST_RANKS);
    /* The other group has the ranks in the opposite order. */
    CHECK_OK(ls_group_split(group, 0, size - ls_group_rank(group),
                            &players[1].group));
    for (int i = 0; i < 2; i++) {
        players[i].calls = *(const uint64_t *)argument;
        CHECK(pthread_create(&players[i].thread, NULL, play, &players[i]) == 0);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(players[i].thread, NULL);
    ls_group_close(&players[1].group);
}

static uint64_t how_many(void)
{
    const char *text = getenv("LOCKSTEP_TEST_CALLS");
    return text == NULL ? DEFAULT_CALLS : strtoull(text, NULL, 10);
}

static void random_calls_on_threads(void **state)
{
    uint64_t n = how_many();
    (void)state;
    run_threads(2, two_groups, &n);
    run_threads(3, two_groups, &n);
}

static void random_calls_on_processes(void **state)
{
    uint64_t n = how_many();
    (void)state;
    run_processes(2, two_groups, &n);
    run_processes(4, two_groups, &n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_calls_on_threads),
        cmocka_unit_test(random_calls_on_processes),
    };
    return cmocka_run_group_tests_name("random", tests, NULL, NULL);
}

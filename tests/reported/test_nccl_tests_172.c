/*
 * NVIDIA/nccl-tests#172: data were corrupted in some iterations only, and a
 * benchmark that checked one iteration did not find it. Here the results of
 * each operation of `lockstep bench` are checked in every round. Then one byte
 * of them is changed, and the same check must find one wrong element.
 */
#include "testing.h"

#include <stdlib.h>

#include "../unit/comm/ranks.h"
#include "cli/bench/collectives.h"
#include "rounds.h"

enum { SIZE = 3, MOST = 30000 };

static size_t rounds = DEFAULT_ROUNDS;

static const char *const names[] = {
    "all-reduce", "reduce",  "reduce-scatter", "broadcast", "all-gather",
    "gather",     "scatter", "all-to-all",     "send-recv"};

/* Whether this rank has results, and where the first of them is. */
static unsigned char *results(const lsi_bench_collective *c,
                              const lsi_exercise *x)
{
    const int rank = ls_group_rank(x->group);
    const size_t block = x->count * ls_dtype_size(x->dtype);
    if (c->has_root && (c->reduces || c->receives_blocks) && rank != x->root)
        return NULL;
    return c->reduces && c->sends_blocks && x->send == x->recv
               ? x->recv + (size_t)rank * block
               : x->recv;
}

static void check(const lsi_bench_collective *c, const lsi_exercise *x,
                  size_t round)
{
    lsi_bench_collective_fill(c, x);
    CHECK_OK(c->run(x));
    CHECK(c->wrong(x) == 0);
    unsigned char *const bytes = results(c, x);
    if (bytes == NULL || x->count == 0)
        return;
    const size_t changed = round * 7919 % (x->count * ls_dtype_size(x->dtype));
    bytes[changed] ^= 1U << round % 8;
    CHECK(c->wrong(x) == 1);
}

/* Short, of a few KiB, and longer than a cell holds. */
static size_t count_of(size_t round)
{
    static const size_t most[] = {20, 1000, MOST};
    return round * 7919 % most[round % TEST_COUNT(most)];
}

static void repeat(ls_group *group, void *unused)
{
    lsi_exercise x = {.group = group, .dtype = LS_I32, .op = LS_REDUCE_SUM};
    unsigned char *const send = malloc(SIZE * MOST * sizeof(int32_t));
    unsigned char *const recv = malloc(SIZE * MOST * sizeof(int32_t));
    (void)unused;
    CHECK(send != NULL && recv != NULL);
    CHECK_OK(lsi_pattern_new(&x.pattern, SIZE, x.dtype, x.op));
    for (size_t i = 0; i < rounds; i++) {
        x.count = count_of(i);
        x.root = (int)(i % SIZE);
        for (size_t n = 0; n < TEST_COUNT(names); n++) {
            const lsi_bench_collective *const c =
                lsi_bench_collective_find(names[n]);
            const bool in_place =
                !c->out_of_place || (c->in_place && i % 2 == 0);
            x.recv = recv;
            x.send = in_place ? recv : send;
            check(c, &x, i);
        }
    }
    lsi_pattern_free(&x.pattern);
    free(send);
    free(recv);
}

static void every_iteration_is_checked(void **state)
{
    (void)state;
    run_processes(SIZE, repeat, NULL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_iteration_is_checked),
    };
    rounds = rounds_of(argc, argv);
    return cmocka_run_group_tests_name("nccl_tests_172", tests, NULL, NULL);
}

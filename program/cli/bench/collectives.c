/*
 * Calling and checking each collective.
 */
#include "cli/bench/collectives.h"

#include <string.h>

#include "base/error.h"

/* ---- places in the buffers -------------------------------------------- */

static unsigned char *block_of(const lsi_exercise *x, unsigned char *buffer,
                               int block)
{
    return buffer + (size_t)block * x->count * ls_dtype_size(x->dtype);
}

static int rank_of(const lsi_exercise *x)
{
    return ls_group_rank(x->group);
}

/* In place, a block of one buffer is the other. */
static unsigned char *own_block_in_place(const lsi_exercise *x,
                                         unsigned char *one,
                                         unsigned char *other)
{
    return x->send == x->recv ? block_of(x, one, rank_of(x)) : other;
}

/* ---- calls ------------------------------------------------------------ */

static ls_status run_all_reduce(const lsi_exercise *x)
{
    return ls_all_reduce(x->group, x->send, x->recv, x->count, x->dtype, x->op);
}

static ls_status run_reduce(const lsi_exercise *x)
{
    return ls_reduce(x->group, x->send, x->recv, x->count, x->dtype, x->op,
                     x->root);
}

static ls_status run_reduce_scatter(const lsi_exercise *x)
{
    return ls_reduce_scatter(x->group, x->send,
                             own_block_in_place(x, x->send, x->recv), x->count,
                             x->dtype, x->op);
}

static ls_status run_broadcast(const lsi_exercise *x)
{
    return ls_broadcast(x->group, x->recv, x->count, x->dtype, x->root);
}

static ls_status run_all_gather(const lsi_exercise *x)
{
    return ls_all_gather(x->group, own_block_in_place(x, x->recv, x->send),
                         x->recv, x->count, x->dtype);
}

static ls_status run_gather(const lsi_exercise *x)
{
    return ls_gather(x->group, x->send, x->recv, x->count, x->dtype, x->root);
}

static ls_status run_scatter(const lsi_exercise *x)
{
    return ls_scatter(x->group, x->send, x->recv, x->count, x->dtype, x->root);
}

static ls_status run_all_to_all(const lsi_exercise *x)
{
    return ls_all_to_all(x->group, x->send, x->recv, x->count, x->dtype);
}

/* The rank before this one in the ring. */
static int source_of(const lsi_exercise *x)
{
    const int size = ls_group_size(x->group);
    return (rank_of(x) + size - 1) % size;
}

static ls_status run_send_recv(const lsi_exercise *x)
{
    ls_request *send = NULL;
    ls_request *recv = NULL;
    const int next = (rank_of(x) + 1) % ls_group_size(x->group);
    LS_TRY(ls_irecv(x->group, x->recv, x->count, x->dtype, source_of(x), 0,
                    &recv));
    ls_status status =
        ls_isend(x->group, x->send, x->count, x->dtype, next, 0, &send);
    if (status == LS_OK)
        status = ls_wait(send);
    if (status == LS_OK)
        status = ls_wait(recv);
    ls_request_free(&send);
    ls_request_free(&recv);
    return status;
}

static ls_status run_barrier(const lsi_exercise *x)
{
    return ls_barrier(x->group);
}

/* ---- checks ----------------------------------------------------------- */

static size_t wrong_all_reduce(const lsi_exercise *x)
{
    return lsi_pattern_wrong_reduced(x->pattern, 0, x->recv, x->count);
}

static size_t wrong_reduce(const lsi_exercise *x)
{
    return rank_of(x) == x->root ? wrong_all_reduce(x) : 0;
}

static size_t wrong_reduce_scatter(const lsi_exercise *x)
{
    return lsi_pattern_wrong_reduced(x->pattern, (size_t)rank_of(x) * x->count,
                                     own_block_in_place(x, x->send, x->recv),
                                     x->count);
}

static size_t wrong_broadcast(const lsi_exercise *x)
{
    return lsi_pattern_wrong(x->pattern, x->root, 0, x->recv, x->count);
}

static size_t wrong_all_gather(const lsi_exercise *x)
{
    size_t wrong = 0;
    for (int rank = 0; rank < ls_group_size(x->group); rank++)
        wrong += lsi_pattern_wrong(x->pattern, rank, 0,
                                   block_of(x, x->recv, rank), x->count);
    return wrong;
}

static size_t wrong_gather(const lsi_exercise *x)
{
    return rank_of(x) == x->root ? wrong_all_gather(x) : 0;
}

static size_t wrong_scatter(const lsi_exercise *x)
{
    return lsi_pattern_wrong(x->pattern, x->root, (size_t)rank_of(x) * x->count,
                             x->recv, x->count);
}

static size_t wrong_all_to_all(const lsi_exercise *x)
{
    size_t wrong = 0;
    for (int rank = 0; rank < ls_group_size(x->group); rank++)
        wrong +=
            lsi_pattern_wrong(x->pattern, rank, (size_t)rank_of(x) * x->count,
                              block_of(x, x->recv, rank), x->count);
    return wrong;
}

static size_t wrong_send_recv(const lsi_exercise *x)
{
    return lsi_pattern_wrong(x->pattern, source_of(x), 0, x->recv, x->count);
}

static size_t wrong_barrier(const lsi_exercise *x)
{
    (void)x;
    return 0;
}

/* ---- bandwidth -------------------------------------------------------- */

static double once(int ranks)
{
    (void)ranks;
    return 1;
}

static double all_but_own(int ranks)
{
    return (ranks - 1.0) / ranks;
}

static double all_but_own_twice(int ranks)
{
    return 2 * all_but_own(ranks);
}

/* ---- the table -------------------------------------------------------- */

/* A row: its name in C, its name as a command, and its properties. */
#define COLLECTIVE(id, name_, ...)                                             \
    {                                                                          \
        .name = (name_), .run = run_##id, .wrong = wrong_##id, __VA_ARGS__     \
    }
static const lsi_bench_collective collectives[] = {
    COLLECTIVE(all_reduce, "all-reduce", .select = "all_reduce",
               .bus_factor = all_but_own_twice, .reduces = true,
               .has_data = true, .out_of_place = true, .in_place = true),
    COLLECTIVE(reduce, "reduce", .select = "reduce", .bus_factor = once,
               .reduces = true, .has_root = true, .has_data = true,
               .out_of_place = true, .in_place = true),
    COLLECTIVE(reduce_scatter, "reduce-scatter", .select = "reduce_scatter",
               .bus_factor = all_but_own, .reduces = true, .has_data = true,
               .out_of_place = true, .in_place = true, .sends_blocks = true),
    COLLECTIVE(broadcast, "broadcast", .select = "broadcast",
               .bus_factor = once, .has_root = true, .has_data = true,
               .in_place = true),
    COLLECTIVE(all_gather, "all-gather", .select = "all_gather",
               .bus_factor = all_but_own, .has_data = true,
               .out_of_place = true, .in_place = true, .receives_blocks = true),
    COLLECTIVE(gather, "gather", .select = "gather", .bus_factor = all_but_own,
               .has_root = true, .has_data = true, .out_of_place = true,
               .receives_blocks = true),
    COLLECTIVE(scatter, "scatter", .select = "scatter",
               .bus_factor = all_but_own, .has_root = true, .has_data = true,
               .out_of_place = true, .sends_blocks = true),
    COLLECTIVE(all_to_all, "all-to-all", .select = "all_to_all",
               .bus_factor = all_but_own, .has_data = true,
               .out_of_place = true, .in_place = true, .sends_blocks = true,
               .receives_blocks = true),
    COLLECTIVE(send_recv, "send-recv", .bus_factor = once, .has_data = true,
               .out_of_place = true),
    COLLECTIVE(barrier, "barrier", .select = "barrier", .bus_factor = once,
               .in_place = true),
};

const lsi_bench_collective *lsi_bench_collective_find(const char *name)
{
    const lsi_bench_collective *c = collectives;
    while (strcmp(c->name, name) != 0)
        c++;
    return c;
}

void lsi_bench_collective_fill(const lsi_bench_collective *c,
                               const lsi_exercise *x)
{
    const size_t ranks = (size_t)ls_group_size(x->group);
    const size_t block = x->count * ls_dtype_size(x->dtype);
    const bool in_place = x->send == x->recv;
    /* Bytes that cannot be mistaken for a result. */
    memset(x->recv, 0xee, c->receives_blocks ? ranks * block : block);
    if (c->sends_blocks)
        lsi_pattern_fill(x->pattern, rank_of(x), 0, x->send, ranks * x->count);
    else if (c->receives_blocks && in_place)
        lsi_pattern_fill(x->pattern, rank_of(x), 0,
                         block_of(x, x->recv, rank_of(x)), x->count);
    else if (!c->has_root || c->reduces || c->receives_blocks ||
             rank_of(x) == x->root)
        lsi_pattern_fill(x->pattern, rank_of(x), 0, x->send, x->count);
}

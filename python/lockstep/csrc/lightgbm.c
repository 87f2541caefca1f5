/*
 * LightGBM's collectives over a group, for lockstep/lightgbm.py.
 *
 * LightGBM calls two functions: an all-gather, and a reduce-scatter whose
 * reducer works on records that only LightGBM knows. So each rank receives its
 * block of all ranks, and reduces these in the order in which LightGBM's
 * sockets do, which gives the same bits.
 *
 * The functions return nothing, so errors leave them as those of LightGBM's
 * sockets do: by LightGBM's Log::Fatal. It throws a C++ exception, which
 * LightGBM's C interface turns into an error. This file is compiled with
 * -fexceptions, so that the exception can pass.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lockstep/comm.h"

/* LightGBM's sockets reduce longer vectors in a ring, unless ranks are 2^k. */
enum { RING_BYTES = 10 * 1024 * 1024 };

typedef void log_fn(const char *format, ...);
typedef void reduce_fn(const char *input, char *output, int type_bytes,
                       int32_t bytes);

/* LightGBM's network, too, belongs to one thread. */
static _Thread_local struct {
    ls_group *group;
    log_fn *fatal;  /* does not return */
    size_t *counts; /* twice one number a rank */
    char *room;     /* the blocks that this rank receives */
    size_t room_bytes;
    double seconds; /* in collectives */
} network;

/* Blocks of one rank, as they arrived: that of each rank, in their order. */
typedef struct blocks {
    char *first;
    int32_t bytes; /* of each */
    int type_bytes;
    reduce_fn *reduce;
} blocks;

LS_API int lsi_lightgbm_begin(ls_group *group, log_fn *fatal);
LS_API void lsi_lightgbm_end(void);
LS_API double lsi_lightgbm_seconds(void);
LS_API void lsi_lightgbm_all_gather(char *input, int32_t input_bytes,
                                    const int32_t *starts,
                                    const int32_t *lengths, int n, char *output,
                                    int32_t output_bytes);
LS_API void lsi_lightgbm_reduce_scatter(char *input, int32_t input_bytes,
                                        int type_bytes, const int32_t *starts,
                                        const int32_t *lengths, int n,
                                        char *output, int32_t output_bytes,
                                        reduce_fn *const *reduce);

/* ---- the order of LightGBM's sums ---------------------------------------- */

/* Reduces the block of rank `from` into the block of rank `to`. */
static void reduce(const blocks *b, int from, int to)
{
    b->reduce(b->first + (size_t)from * (size_t)b->bytes,
              b->first + (size_t)to * (size_t)b->bytes, b->type_bytes,
              b->bytes);
}

/* The rank of a member, of which the first `singles` are ranks of no pair. */
static int rank_of(int member, int singles)
{
    return member < singles ? member : 2 * member - singles;
}

/*
 * Recursive halving among 2^k members. If there are more ranks, the last ones
 * form pairs, of which the first rank is the member. Returns the rank in whose
 * place the result is.
 */
static int reduce_by_halving(const blocks *b, int rank, int n)
{
    int members = 1;
    while (members * 2 <= n)
        members *= 2;
    const int singles = 2 * members - n;
    const int own = rank < singles ? rank : (rank + singles) / 2;
    for (int m = singles; m < members; m++)
        reduce(b, rank_of(m, singles) + 1, rank_of(m, singles));
    for (int d = members / 2; d >= 1; d /= 2)
        for (int m = own / d * d; m < own / d * d + d; m++)
            reduce(b, rank_of(m ^ d, singles), rank_of(m, singles));
    return rank_of(own, singles);
}

/* The block starts at the next rank, and each rank adds it to its own. */
static int reduce_in_ring(const blocks *b, int rank, int n)
{
    for (int i = 1; i < n; i++)
        reduce(b, (rank + i) % n, (rank + i + 1) % n);
    return rank;
}

/* ---- collectives --------------------------------------------------------- */

static void check(ls_status status)
{
    if (status != LS_OK)
        network.fatal("%s", ls_last_error());
}

static double now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The lengths as counts of bytes; each block begins where the last one ends. */
static size_t *count_bytes(const int32_t *starts, const int32_t *lengths, int n)
{
    int32_t end = 0;
    for (int r = 0; r < n; r++) {
        if (starts[r] != end)
            network.fatal("LightGBM's block %d begins at byte %d, but Lockstep "
                          "requires blocks without gaps (byte %d)",
                          r, (int)starts[r], (int)end);
        network.counts[r] = (size_t)lengths[r];
        end += lengths[r];
    }
    return network.counts;
}

static void make_room(size_t bytes)
{
    if (bytes <= network.room_bytes)
        return;
    free(network.room);
    network.room_bytes = 0;
    network.room = malloc(bytes);
    if (network.room == NULL) {
        /* The other ranks must not wait for this one. */
        ls_group_abort(network.group);
        network.fatal("cannot allocate %zu bytes for blocks of LightGBM",
                      bytes);
    }
    network.room_bytes = bytes;
}

void lsi_lightgbm_all_gather(char *input, int32_t input_bytes,
                             const int32_t *starts, const int32_t *lengths,
                             int n, char *output, int32_t output_bytes)
{
    char *own = output + starts[ls_group_rank(network.group)];
    const size_t *counts = count_bytes(starts, lengths, n);
    (void)output_bytes;
    memmove(own, input, (size_t)input_bytes); /* may be in output, elsewhere */
    const double begin = now();
    const ls_status status = ls_all_gatherv(
        network.group, own, (size_t)input_bytes, output, counts, LS_U8);
    network.seconds += now() - begin;
    check(status);
}

void lsi_lightgbm_reduce_scatter(char *input, int32_t input_bytes,
                                 int type_bytes, const int32_t *starts,
                                 const int32_t *lengths, int n, char *output,
                                 int32_t output_bytes, reduce_fn *const *reduce)
{
    const int rank = ls_group_rank(network.group);
    size_t *send_counts = count_bytes(starts, lengths, n);
    size_t *recv_counts = send_counts + n;
    (void)output_bytes;
    for (int r = 0; r < n; r++)
        recv_counts[r] = (size_t)lengths[rank];
    make_room((size_t)n * (size_t)lengths[rank]);
    const double begin = now();
    const ls_status status = ls_all_to_allv(network.group, input, send_counts,
                                            network.room, recv_counts, LS_U8);
    network.seconds += now() - begin;
    check(status);
    const blocks b = {network.room, lengths[rank], type_bytes, *reduce};
    const int in_ring = (n & (n - 1)) != 0 && input_bytes >= RING_BYTES;
    const int at =
        in_ring ? reduce_in_ring(&b, rank, n) : reduce_by_halving(&b, rank, n);
    memcpy(output, b.first + (size_t)at * (size_t)b.bytes, (size_t)b.bytes);
}

/* ---- of one thread ------------------------------------------------------- */

/* 0, or 1 if this thread has a network, 2 without memory. */
int lsi_lightgbm_begin(ls_group *group, log_fn *fatal)
{
    if (network.group != NULL)
        return 1;
    const size_t n = (size_t)ls_group_size(group);
    network.counts = malloc(2 * n * sizeof(*network.counts));
    if (network.counts == NULL)
        return 2;
    network.group = group;
    network.fatal = fatal;
    network.seconds = 0;
    return 0;
}

/* Seconds of this thread in collectives, without those of the reducer. */
double lsi_lightgbm_seconds(void)
{
    return network.seconds;
}

void lsi_lightgbm_end(void)
{
    free(network.counts);
    free(network.room);
    memset(&network, 0, sizeof(network));
}

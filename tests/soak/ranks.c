/*
 * A rank of a job that soak.py disturbs: random collectives and messages, every
 * result checked.
 *
 *     soak_ranks SEED SECONDS [RANK WHEN HOW]
 *
 * After call WHEN, rank RANK does something else than the others: "count" or
 * "operation" (it calls what they do not), "exit" (it ends well), "fail" (it
 * ends with status 1). Exits with 0, with 3 and "rank R: MESSAGE" if a call
 * fails, with 4 if a result is wrong.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <lockstep/lockstep.h>

enum { MOST = 40000, MOST_RANKS = 16 };

static int rank, size;
static int64_t send[MOST], recv[MOST * MOST_RANKS];

static uint64_t next(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15u;
    uint64_t x = *state;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    return (x ^ x >> 27) >> 11;
}

static int64_t value(uint64_t call, int r, size_t i)
{
    return (int64_t)((call * 31 + (uint64_t)r * 1009 + i * 17) % 4001);
}

static void check(uint64_t call, size_t i, int64_t is, int64_t should)
{
    if (is == should)
        return;
    fprintf(stderr, "rank %d: call %llu: element %zu is wrong\n", rank,
            (unsigned long long)call, i);
    exit(4);
}

static ls_status reduce(ls_group *group, uint64_t call, size_t n)
{
    ls_status status =
        ls_all_reduce(group, send, recv, n, LS_I64, LS_REDUCE_SUM);
    for (size_t i = 0; status == LS_OK && i < n; i++) {
        int64_t sum = 0;
        for (int r = 0; r < size; r++)
            sum += value(call, r, i);
        check(call, i, recv[i], sum);
    }
    return status;
}

static ls_status gather(ls_group *group, uint64_t call, size_t n)
{
    ls_status status = ls_all_gather(group, send, recv, n, LS_I64);
    for (size_t i = 0; status == LS_OK && i < n * (size_t)size; i++)
        check(call, i, recv[i], value(call, (int)(i / n), i % n));
    return status;
}

static ls_status broadcast(ls_group *group, uint64_t call, size_t n)
{
    const int root = (int)(call % (uint64_t)size);
    ls_status status = ls_broadcast(group, send, n, LS_I64, root);
    for (size_t i = 0; status == LS_OK && i < n; i++)
        check(call, i, send[i], value(call, root, i));
    return status;
}

/* Around a ring: begun by all at once, so that nobody waits for its turn. */
static ls_status pass_on(ls_group *group, uint64_t call, size_t n)
{
    const int left = (rank + size - 1) % size, right = (rank + 1) % size;
    ls_request *out = NULL, *in = NULL;
    ls_status status = ls_isend(group, send, n, LS_I64, right, 0, &out);
    if (status == LS_OK)
        status = ls_irecv(group, recv, n, LS_I64, left, 0, &in);
    if (status == LS_OK)
        status = ls_wait(in);
    if (status == LS_OK)
        status = ls_wait(out);
    for (size_t i = 0; status == LS_OK && i < n; i++)
        check(call, i, recv[i], value(call, left, i));
    ls_request_free(&out);
    ls_request_free(&in);
    return status;
}

static ls_status one_call(ls_group *group, uint64_t call, uint64_t *random)
{
    const uint64_t kind = next(random) % 5;
    const size_t n = next(random) % (next(random) % 4 == 0 ? MOST : 200) + 1;
    for (size_t i = 0; i < n; i++)
        send[i] = value(call, rank, i);
    switch (kind) {
    case 0:
        return gather(group, call, n);
    case 1:
        return broadcast(group, call, n);
    case 2:
        return pass_on(group, call, n);
    case 3:
        return ls_barrier(group);
    default:
        return reduce(group, call, n);
    }
}

static ls_status differ(ls_group *group, const char *how)
{
    if (strcmp(how, "exit") == 0)
        exit(0);
    if (strcmp(how, "fail") == 0)
        exit(1);
    if (strcmp(how, "count") == 0)
        return ls_all_reduce(group, send, recv, MOST - 1, LS_I64,
                             LS_REDUCE_SUM);
    return ls_reduce(group, send, recv, 1, LS_I32, LS_REDUCE_MIN, 0);
}

static int failed(const char *what)
{
    fprintf(stderr, "rank %d: %s%s\n", rank, what, ls_last_error());
    return 3;
}

/* Until all agree that the time is over. */
static int play(ls_group *group, uint64_t random, int seconds, char **other)
{
    const time_t end = time(NULL) + seconds;
    const int who = *other == NULL ? -1 : atoi(other[0]);
    const uint64_t when = *other == NULL ? 0 : strtoull(other[1], NULL, 10);
    for (uint64_t call = 1;; call++) {
        int64_t over = time(NULL) >= end;
        if (rank == who && call > when && differ(group, other[2]) != LS_OK)
            return failed("");
        if (call % 64 == 0) {
            if (ls_all_reduce(group, &over, &over, 1, LS_I64, LS_REDUCE_MAX) !=
                LS_OK)
                return failed("");
            if (over != 0)
                return 0;
        }
        if (one_call(group, call, &random) != LS_OK)
            return failed("");
    }
}

int main(int argc, char **argv)
{
    ls_group *group = NULL;
    if (argc != 3 && argc != 6) {
        fprintf(stderr, "usage: soak_ranks SEED SECONDS [RANK WHEN HOW]\n");
        return 2;
    }
    if (ls_group_from_env(&group) != LS_OK)
        return failed("cannot join: ");
    rank = ls_group_rank(group);
    size = ls_group_size(group);
    const int status =
        play(group, strtoull(argv[1], NULL, 10), atoi(argv[2]), argv + 3);
    ls_group_close(&group);
    return status;
}

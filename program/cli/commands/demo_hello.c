/*
 * lockstep demo hello: every rank draws three numbers and they are summed.
 */
#include "base/error.h"
#include "base/rng.h"
#include "cli/commands/print.h"
#include "cli/frame/ranks.h"
#include "lockstep/group.h"

enum { COUNT = 3, BOUND = 10, USUAL_RANKS = 4 };

typedef struct args {
    lsi_rank_flags ranks;
    int64_t seed;
} args;

#define ROW(...) LSI_OPTION(args, __VA_ARGS__)
static const lsi_option options[] = {
    LSI_RANK_ROWS(ranks, "4"),
    ROW(seed, INT, "seed", 0, "N", "0", "seed of the random numbers"),
};

static ls_status print(int rank, const char *when, const int32_t *data)
{
    return lsi_print_now("rank %d data (%s all-reduce): [%d, %d, %d]\n", rank,
                         when, data[0], data[1], data[2]);
}

static ls_status sum_numbers(ls_group *group, uint64_t seed)
{
    const int rank = ls_group_rank(group);
    const lsi_rng_key key = {.seed = seed, .stream = (uint64_t)rank};
    int32_t data[COUNT];
    for (uint64_t i = 0; i < COUNT; i++)
        data[i] = (int32_t)lsi_rng_below(key, 0, i, BOUND);
    LS_TRY(print(rank, "before", data));
    LS_TRY(ls_all_reduce(group, data, data, COUNT, LS_I32, LS_REDUCE_SUM));
    return print(rank, "after", data);
}

static int run_hello(const lsi_invocation *call)
{
    args a;
    int exit_status;
    if (!lsi_cli_parse(call, &a, NULL, &exit_status) ||
        !lsi_cli_as_rank(call, &a.ranks, USUAL_RANKS, &exit_status))
        return exit_status;
    ls_group *group = NULL;
    ls_status status = lsi_cli_open_group(a.ranks.threads, &group);
    if (status == LS_OK)
        status = sum_numbers(group, (uint64_t)a.seed);
    exit_status = status == LS_OK ? 0 : lsi_cli_rank_error();
    ls_group_close(&group);
    return exit_status;
}

const lsi_command lsi_command_demo_hello = {
    .name = "hello",
    .summary = "Draw three numbers on each rank and sum them over all ranks",
    .text = "Each rank prints its numbers before and after an all-reduce. The "
            "lines may come in any order; the sums are the same on all ranks.",
    LSI_COMMAND_OPTIONS(options),
    .run = run_hello,
};

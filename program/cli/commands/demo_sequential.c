/*
 * lockstep demo sequential: ranks print one after the other. Two ways to keep
 * them in order: a barrier after each, or a token that is handed on.
 */
#include "base/error.h"
#include "cli/commands/print.h"
#include "cli/frame/ranks.h"
#include "lockstep/group.h"

enum { USUAL_RANKS = 4 };

typedef struct args {
    lsi_rank_flags ranks;
    int64_t iterations;
    bool two_way;
} args;

#define ROW(...) LSI_OPTION(args, __VA_ARGS__)
static const lsi_option options[] = {
    LSI_RANK_ROWS(ranks, "4"),
    ROW(iterations, INT, "iterations", 0, "N", "10", "number of iterations",
        .min = 0, .max = 1e9),
    ROW(two_way, BOOL, "two-way", 0, NULL, NULL,
        "count up and then down, with messages between neighbours instead of a "
        "barrier"),
};

static ls_status print_rank(const ls_group *group)
{
    return lsi_print_now("Process %d\n", ls_group_rank(group));
}

static ls_status count_up(ls_group *group)
{
    for (int turn = 0; turn < ls_group_size(group); turn++) {
        if (ls_group_rank(group) == turn)
            LS_TRY(print_rank(group));
        LS_TRY(ls_barrier(group));
    }
    return LS_OK;
}

/* Rank 0 begins and ends: the token is with it again when all is printed. */
static ls_status count_up_and_down(ls_group *group)
{
    const int rank = ls_group_rank(group);
    const bool first = rank == 0;
    const bool last = rank == ls_group_size(group) - 1;
    int32_t token = 0;
    if (!first)
        LS_TRY(ls_recv(group, &token, 1, LS_I32, rank - 1, 0));
    LS_TRY(print_rank(group));
    if (!last) {
        LS_TRY(ls_send(group, &token, 1, LS_I32, rank + 1, 0));
        LS_TRY(ls_recv(group, &token, 1, LS_I32, rank + 1, 0));
    }
    LS_TRY(print_rank(group));
    if (!first)
        LS_TRY(ls_send(group, &token, 1, LS_I32, rank - 1, 0));
    return LS_OK;
}

static ls_status count(ls_group *group, const args *a)
{
    for (int64_t i = 0; i < a->iterations; i++) {
        if (i > 0 && ls_group_rank(group) == 0)
            LS_TRY(lsi_print_now("---\n"));
        LS_TRY(a->two_way ? count_up_and_down(group) : count_up(group));
    }
    return LS_OK;
}

static int run_sequential(const lsi_invocation *call)
{
    args a;
    int exit_status;
    if (!lsi_cli_parse(call, &a, NULL, &exit_status) ||
        !lsi_cli_as_rank(call, &a.ranks, USUAL_RANKS, &exit_status))
        return exit_status;
    ls_group *group = NULL;
    ls_status status = lsi_cli_open_group(a.ranks.threads, &group);
    if (status == LS_OK)
        status = count(group, &a);
    exit_status = status == LS_OK ? 0 : lsi_cli_rank_error();
    ls_group_close(&group);
    return exit_status;
}

const lsi_command lsi_command_demo_sequential = {
    .name = "sequential",
    .summary = "Print the ranks' numbers one after the other",
    .text = "Each iteration prints \"Process 0\" to \"Process N-1\", one per "
            "line; \"---\" separates iterations. With --two-way, each "
            "iteration counts up from 0 to N-1 and then down from N-1 to 0.",
    LSI_COMMAND_OPTIONS(options),
    .run = run_sequential,
};

/*
 * Faults between ranks, made on purpose: after 500 good all-reduces rank 1
 * misbehaves, and each rank prints the error that it gets. Diagnose it with
 * `lockstep doctor` (docs/how-to/debugging.md).
 *
 *     LOCKSTEP_RECORD=records lockstep run -n 4 -- hang broadcast
 *
 * Without an argument all is well.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <lockstep/lockstep.h>

enum { COUNT = 256, GOOD_CALLS = 500 };

static ls_status reduce(ls_group *group, int calls)
{
    float numbers[COUNT] = {0};
    for (int i = 0; i < calls; i++) {
        const ls_status status = ls_all_reduce(group, numbers, numbers, COUNT,
                                               LS_F32, LS_REDUCE_SUM);
        if (status != LS_OK)
            return status;
    }
    return LS_OK;
}

/* Does what rank 1 should not do; returns if it goes on after that. */
static ls_status misbehave(ls_group *group, const char *fault)
{
    float numbers[COUNT] = {0};
    if (strcmp(fault, "broadcast") == 0)
        return ls_broadcast(group, numbers, COUNT, LS_F32, 0);
    if (strcmp(fault, "compute") == 0)
        for (volatile unsigned long i = 0;;)
            i = i + 1;
    raise(strcmp(fault, "stop") == 0 ? SIGSTOP : SIGKILL);
    return LS_OK;
}

static int is_fault(const char *name)
{
    return strcmp(name, "broadcast") == 0 || strcmp(name, "compute") == 0 ||
           strcmp(name, "stop") == 0 || strcmp(name, "die") == 0;
}

static ls_status run(ls_group *group, const char *fault)
{
    ls_status status = reduce(group, GOOD_CALLS);
    if (status == LS_OK && fault != NULL && ls_group_rank(group) == 1)
        status = misbehave(group, fault);
    if (status == LS_OK)
        status = reduce(group, 1);
    return status;
}

int main(int argc, char **argv)
{
    const char *fault = argc > 1 ? argv[1] : NULL;
    ls_group *group = NULL;
    if (fault != NULL && !is_fault(fault)) {
        fprintf(stderr,
                "hang: unknown fault '%s'; use broadcast, compute, stop or "
                "die\n",
                fault);
        return 2;
    }
    ls_status status = ls_group_from_env(&group);
    if (status == LS_OK)
        status = run(group, fault);
    if (status != LS_OK)
        fprintf(stderr, "%s\n", ls_last_error());
    ls_group_close(&group);
    return status != LS_OK;
}

/* Needs are formulas, so that they are known before anything is allocated. */
#include "train/memory_demand.h"

#include "base/error.h"
#include "base/meminfo.h"
#include "comm/state/state.h"
#include "report/size_text.h"

/*
 * Copies on this machine: one for each of its ranks, or its part of one that
 * all ranks divide.
 */
static double copies(const ls_group *group, bool divided)
{
    const double here = ls_group_local_size(group);
    return divided ? here / ls_group_size(group) : here;
}

int64_t lsi_memory_plan_bytes(const ls_group *group,
                              const lsi_memory_plan *wish)
{
    const lsi_sharding share = wish->strategy->share;
    const double here = ls_group_local_size(group);
    const bool divided = share == LSI_SHARE_ALL && here < ls_group_size(group);
    /* Layers that a node gathers come in addition; they are not known yet. */
    const double weights = divided                      ? copies(group, true)
                           : share >= LSI_SHARE_WEIGHTS ? 1
                                                        : here;
    const double halves = wish->rounded ? weights / 2 : 0;
    const double gradients = copies(group, share == LSI_SHARE_ALL);
    const double state =
        wish->moments * copies(group, share >= LSI_SHARE_TENSORS);
    /*
     * Private weights, until they are shared. If ranks have one copy, only rank
     * 0 has some, which it may have read from a file. Over several nodes that
     * is one node, and only for a run that begins with a file.
     */
    const double alone = divided ? 0 : share >= LSI_SHARE_WEIGHTS ? 1 : here;
    const double first = share == LSI_SHARE_NOTHING ? here : alone + weights;
    const double later = weights + halves + gradients + state;
    const double most = first > later ? first : later;
    return (int64_t)(most * sizeof(float) * (double)wish->parameters);
}

/* INT64_MAX: unknown on this machine. */
static int64_t available(int64_t budget)
{
    if (budget > 0)
        return budget;
    const int64_t bytes = lsi_memory_available();
    return bytes < 0 ? INT64_MAX : bytes / 10 * 9;
}

ls_status lsi_memory_demand_ask(ls_group *group, int64_t needed, int64_t budget,
                                lsi_memory_demand *out)
{
    lsi_memory_demand all[LSI_MAX_RANKS];
    LS_TRY(ls_barrier(group)); /* memory that other ranks free is free now */
    const lsi_memory_demand own = {needed, available(budget)};
    LS_TRY(ls_all_gather(group, &own, all, 2, LS_I64));
    *out = own;
    for (int r = 0; r < ls_group_size(group); r++)
        if (all[r].available - all[r].needed < out->available - out->needed)
            *out = all[r];
    return LS_OK;
}

ls_status lsi_memory_demand_fail(lsi_memory_demand room, const char *what)
{
    char needed[LSI_SIZE_TEXT], available[LSI_SIZE_TEXT];
    lsi_size_text(needed, (uint64_t)room.needed);
    lsi_size_text(available, (uint64_t)room.available);
    return lsi_fail(LS_ERR_MEMORY,
                    "%s do not fit into memory: the ranks on one machine need "
                    "at least %s, but only %s are available",
                    what, needed, available);
}

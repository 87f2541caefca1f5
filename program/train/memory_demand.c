/* Needs are formulas, so that they are known before anything is allocated. */
#include "train/memory_demand.h"

#include <inttypes.h>
#include <math.h>

#include "base/append.h"
#include "base/error.h"
#include "base/meminfo.h"
#include "comm/api/internode_swap.h"
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

/* ---- gathered layers ----------------------------------------------------- */

/* Nodes that keep the same weights. */
static int replicas_of(const lsi_memory_plan *plan)
{
    return plan->replicas > 0 ? plan->replicas : 1;
}

/* The most bytes that a node without weights gathers at a time. */
static double window_bytes(const lsi_memory_plan *plan, size_t ahead)
{
    return lsi_layer_window_bytes(
        &plan->layers,
        &(lsi_layer_window){.ahead = ahead, .half = plan->rounded});
}

/* The same of this node, which keeps the parts of its replicas' ranks. */
static double gathered_bytes(const ls_group *group, const lsi_memory_plan *plan)
{
    double kept[LSI_MAX_RANKS][2];
    const double all = plan->layers.n > 0 ? plan->layers.of[0].end : 0;
    const double part = all / ls_group_size(group);
    size_t n = 0;
    for (int r = 0; r < ls_group_size(group); r++) {
        if (!lsi_node_is_replica(group, r, replicas_of(plan)))
            continue;
        kept[n][0] = part * r;
        kept[n++][1] = part * (r + 1);
    }
    return lsi_layer_window_bytes(&plan->layers,
                                  &(lsi_layer_window){.ahead = plan->ahead,
                                                      .half = plan->rounded,
                                                      .kept = kept,
                                                      .n_kept = n});
}

/* ---- the demand ---------------------------------------------------------- */

/* The part of the weights that this node keeps if nodes divide them. */
static double part_of_node(const ls_group *group, int replicas)
{
    int ranks = 0;
    for (int r = 0; r < ls_group_size(group); r++)
        ranks += lsi_node_is_replica(group, r, replicas);
    return (double)ranks / ls_group_size(group);
}

/* One bucket of each rank here is filled while another one is reduced. */
static double bucket_bytes(const ls_group *group, const lsi_memory_plan *plan)
{
    const double all = sizeof(float) * (double)plan->parameters;
    const double others = all - all / ls_group_size(group);
    if (plan->strategy->share != LSI_SHARE_ALL)
        return 0;
    return ls_group_local_size(group) * fmin(2 * (double)plan->bucket, others);
}

lsi_memory_demand lsi_memory_demand_of(const ls_group *group,
                                       const lsi_memory_plan *wish)
{
    const lsi_sharding share = wish->strategy->share;
    const double here = ls_group_local_size(group);
    const bool divided = lsi_home_of(wish->strategy, group,
                                     replicas_of(wish)) == LSI_HOME_DIVIDED;
    const double weights = divided ? part_of_node(group, replicas_of(wish))
                           : share >= LSI_SHARE_WEIGHTS ? 1
                                                        : here;
    const double halves = wish->rounded ? weights / 2 : 0;
    const double gradients = copies(group, share == LSI_SHARE_ALL);
    const double state =
        wish->moments * copies(group, share >= LSI_SHARE_TENSORS);
    /* Each rank has whole gradients of all slices but the first. */
    const double slices =
        here * (double)(wish->slices > 1 ? wish->slices - 1 : 0);
    /*
     * Private weights, until they are shared. If ranks have one copy, only rank
     * 0 has some, which it may have read from a file. Over several nodes that
     * is one node, and only for a run that begins with a file.
     */
    const double alone = divided ? 0 : share >= LSI_SHARE_WEIGHTS ? 1 : here;
    const double first =
        (share == LSI_SHARE_NOTHING ? here : alone + weights) + slices;
    const double later = weights + halves + gradients + slices + state;
    const double a_copy = sizeof(float) * (double)wish->parameters;
    const double most =
        fmax(first * a_copy, later * a_copy + bucket_bytes(group, wish));
    const double gathered = divided ? gathered_bytes(group, wish) : 0;
    return (lsi_memory_demand){.needed = (int64_t)(most + gathered),
                               .gathered = (int64_t)gathered};
}

/* INT64_MAX: unknown on this machine. */
static int64_t available(int64_t budget)
{
    if (budget > 0)
        return budget;
    const int64_t bytes = lsi_memory_available();
    return bytes < 0 ? INT64_MAX : bytes / 10 * 9;
}

ls_status lsi_memory_demand_ask(ls_group *group, int64_t budget,
                                lsi_memory_demand *room)
{
    enum { NUMBERS = sizeof(lsi_memory_demand) / sizeof(int64_t) };
    lsi_memory_demand all[LSI_MAX_RANKS];
    LS_TRY(ls_barrier(group)); /* memory that other ranks free is free now */
    room->available = available(budget);
    const lsi_memory_demand own = *room;
    LS_TRY(ls_all_gather(group, &own, all, NUMBERS, LS_I64));
    for (int r = 0; r < ls_group_size(group); r++)
        if (all[r].available - all[r].needed < room->available - room->needed)
            *room = all[r];
    return LS_OK;
}

/* ---- the message --------------------------------------------------------- */

enum { ADVICE = 320 };

/* The most layers ahead of use that fit; -1: even 0 do not. */
static int64_t fitting_ahead(lsi_memory_demand room,
                             const lsi_memory_plan *plan)
{
    const double rest = (double)(room.needed - room.gathered);
    int64_t ahead = (int64_t)plan->ahead - 1;
    while (ahead >= 0 &&
           rest + window_bytes(plan, (size_t)ahead) > (double)room.available)
        ahead--;
    return ahead;
}

static double largest_layer(const lsi_memory_plan *plan)
{
    double most = 0;
    for (size_t i = 0; i < plan->layers.n; i++)
        most = fmax(most, lsi_layer_bytes(&plan->layers.of[i], plan->rounded));
    return most;
}

/* How to make gathered weights fit. */
static void advise(const ls_group *group, lsi_memory_demand room,
                   const lsi_memory_plan *plan, char text[ADVICE])
{
    char gathered[LSI_SIZE_TEXT], layer[LSI_SIZE_TEXT];
    const double least = window_bytes(plan, 0);
    const double left = (double)room.available - least;
    const double nodes =
        ceil((double)(room.needed - room.gathered) * ls_group_size(group) /
             ls_group_local_size(group) / left);
    const size_t all = plan->layers.n;
    const int64_t ahead = fitting_ahead(room, plan);
    lsi_size_text(gathered, (uint64_t)room.gathered);
    lsi_size_text(layer, (uint64_t)largest_layer(plan));
    lsi_append(text, ADVICE,
               ". %s of this are gathered weights: %zu layers of at most %s "
               "(--prefetch-layers %zu). ",
               gathered, plan->ahead < all ? plan->ahead + 1 : all, layer,
               plan->ahead);
    if (ahead >= 0)
        lsi_append(text, ADVICE, "Use --prefetch-layers %" PRId64, ahead);
    else if (replicas_of(plan) > 1)
        lsi_append(text, ADVICE, "Use --shard-over all");
    else if (left > 0)
        lsi_append(text, ADVICE,
                   "Use --prefetch-layers 0 and %.0f nodes or more", nodes);
    else
        lsi_append(text, ADVICE, "Use machines with more memory");
}

ls_status lsi_memory_demand_fail(const ls_group *group, lsi_memory_demand room,
                                 const lsi_memory_plan *plan, const char *what)
{
    char needed[LSI_SIZE_TEXT], available[LSI_SIZE_TEXT], advice[ADVICE] = "";
    lsi_size_text(needed, (uint64_t)room.needed);
    lsi_size_text(available, (uint64_t)room.available);
    if (room.gathered > 0)
        advise(group, room, plan, advice);
    return lsi_fail(LS_ERR_MEMORY,
                    "%s do not fit into memory: the ranks on one machine need "
                    "at least %s, but only %s are available%s",
                    what, needed, available, advice);
}

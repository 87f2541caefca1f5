/*
 * The list of strategies, and what their options mean.
 */
#include "model/parallel/strategy.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "comm/api/internode_swap.h"

enum { USUAL_BUCKET = 25000000 }; /* bytes */

static const char *const names[LS_DDP_STRATEGY_COUNT + 1] = {
    [LS_DDP_DEFAULT] = "default",
#define X(NAME, value, text) [value] = (text),
    LSI_DDP_STRATEGY_LIST(X)
#undef X
};

static const lsi_strategy strategies[] = {
#define X(NAME, buckets, start, share, text)                                   \
    {LS_DDP_##NAME, text, LSI_BUCKETS_##buckets, LSI_START_##start,            \
     LSI_SHARE_##share},
#include "model/parallel/strategies.def"
#undef X
};

_Static_assert(sizeof(strategies) / sizeof(strategies[0]) ==
                   LS_DDP_STRATEGY_COUNT,
               "LSI_DDP_STRATEGY_LIST and strategies.def have the same rows");

const lsi_strategy *lsi_strategies(size_t *n)
{
    *n = LS_DDP_STRATEGY_COUNT;
    return strategies;
}

ls_status lsi_strategy_find(ls_ddp_strategy id, const lsi_strategy **out)
{
    if (id == LS_DDP_DEFAULT)
        id = LS_DDP_FLAT;
    for (size_t i = 0; i < LS_DDP_STRATEGY_COUNT; i++) {
        if (strategies[i].id == id) {
            *out = &strategies[i];
            return LS_OK;
        }
    }
    return lsi_fail(LS_ERR_ARGUMENT, "%d is not an ls_ddp_strategy", (int)id);
}

const char *ls_ddp_strategy_name(ls_ddp_strategy strategy)
{
    const unsigned value = (unsigned)strategy;
    return value <= LS_DDP_STRATEGY_COUNT ? names[value] : "unknown";
}

ls_status ls_ddp_strategy_parse(const char *name, ls_ddp_strategy *out)
{
#define X(NAME, value, text) ", " text
    static const char all[] = LSI_DDP_STRATEGY_LIST(X);
#undef X
    LS_NEED(name, out);
    for (int i = 1; i <= LS_DDP_STRATEGY_COUNT; i++) {
        if (strcmp(name, names[i]) == 0) {
            *out = (ls_ddp_strategy)i;
            return LS_OK;
        }
    }
    return lsi_fail(LS_ERR_ARGUMENT, "unknown strategy '%s'; choose one of: %s",
                    name, all + strlen(", "));
}

size_t lsi_bucket_bytes(double mb)
{
    const double bytes = round(mb * 1e6); /* a megabyte is a million bytes */
    if (!(mb > 0) || !(bytes < 0x1p63))
        return 0;
    return bytes < 1 ? 1 : (size_t)bytes;
}

double lsi_bucket_mb(size_t bytes)
{
    return bytes > 0 ? (double)bytes / 1e6 : INFINITY;
}

const char *lsi_strategies_with_buckets(lsi_strategy_names *out)
{
    size_t used = 0;
    out->text[0] = '\0';
    for (size_t i = 0; i < LS_DDP_STRATEGY_COUNT; i++) {
        if (strategies[i].buckets != LSI_BUCKETS_LIMIT)
            continue;
        used +=
            (size_t)snprintf(out->text + used, sizeof(out->text) - used, "%s%s",
                             used > 0 ? ", " : "", names[strategies[i].id]);
        assert(used < sizeof(out->text));
    }
    return out->text;
}

ls_status lsi_strategy_of(const ls_ddp_options *options, int64_t nodes,
                          const lsi_strategy **out, uint64_t *bucket_bytes)
{
    lsi_strategy_names others;
    const lsi_strategy *found;
    size_t limit = options->bucket_bytes;
    LS_TRY(lsi_strategy_find(options->strategy, &found));
    if (found->buckets != LSI_BUCKETS_LIMIT && limit != 0)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "strategy '%s' does not use buckets, but the bucket "
                        "size is %zu bytes: leave the bucket size out, or "
                        "choose a strategy with buckets: %s",
                        ls_ddp_strategy_name(found->id), limit,
                        lsi_strategies_with_buckets(&others));
    /* Whoever divides weights over nodes has no room for all gradients. */
    if (found->share == LSI_SHARE_ALL && nodes > 1 && limit == 0)
        limit = USUAL_BUCKET;
    *out = found;
    *bucket_bytes = limit > 0 ? limit : UINT64_MAX;
    if (found->buckets == LSI_BUCKETS_EACH)
        *bucket_bytes = 0;
    return LS_OK;
}

static bool is_power_of_two(size_t n)
{
    return n > 0 && (n & (n - 1)) == 0;
}

/* "2, 4, 8": the numbers of nodes that can hold the weights together. */
static void list_fitting(size_t nodes, char *text, size_t bytes)
{
    size_t used = 0, over = nodes;
    while (over % 2 == 0)
        over /= 2;
    for (; over <= nodes && used < bytes; over *= 2)
        used += (size_t)snprintf(text + used, bytes - used, "%s%zu",
                                 used > 0 ? ", " : "", over);
}

ls_status lsi_shard_groups(size_t nodes, size_t over, size_t *groups)
{
    char fitting[200];
    const size_t n = over == 0 ? 1 : nodes / over;
    if (over == 0 || (n * over == nodes && is_power_of_two(n))) {
        *groups = n;
        return LS_OK;
    }
    list_fitting(nodes, fitting, sizeof(fitting));
    return lsi_fail(LS_ERR_ARGUMENT,
                    "cannot divide the weights over %zu of %zu nodes: they "
                    "must form 1, 2, 4, 8, ... groups of equal size; values "
                    "that fit: %s",
                    over, nodes, fitting);
}

ls_status lsi_replicas_of(const ls_group *group, const ls_ddp_options *options,
                          int *out)
{
    size_t groups = 1;
    if (options->strategy == LS_DDP_FSDP)
        LS_TRY(lsi_shard_groups((size_t)lsi_node_count(group),
                                options->shard_over, &groups));
    *out = (int)groups;
    return LS_OK;
}

lsi_weights_home lsi_home_of(const lsi_strategy *strategy,
                             const ls_group *group, int replicas)
{
    if (strategy->share < LSI_SHARE_WEIGHTS)
        return LSI_HOME_COPIES;
    return strategy->share == LSI_SHARE_ALL && replicas < lsi_node_count(group)
               ? LSI_HOME_DIVIDED
               : LSI_HOME_ONE;
}

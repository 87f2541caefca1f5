/*
 * The list of strategies, and what their options mean.
 */
#include "model/parallel/strategy.h"

#include <math.h>
#include <string.h>

#include "base/error.h"

static const char *const names[LS_DDP_STRATEGY_COUNT] = {
#define X(NAME, value, text) [value] = (text),
    LS_DDP_STRATEGY_LIST(X)
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
               "LS_DDP_STRATEGY_LIST and strategies.def have the same rows");

const lsi_strategy *lsi_strategies(size_t *n)
{
    *n = LS_DDP_STRATEGY_COUNT;
    return strategies;
}

ls_status lsi_strategy_find(ls_ddp_strategy id, const lsi_strategy **out)
{
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
    return value < LS_DDP_STRATEGY_COUNT ? names[value] : "unknown";
}

ls_status ls_ddp_strategy_parse(const char *name, ls_ddp_strategy *out)
{
#define X(NAME, value, text) ", " text
    static const char all[] = LS_DDP_STRATEGY_LIST(X);
#undef X
    LS_NEED(name, out);
    for (int i = 0; i < LS_DDP_STRATEGY_COUNT; i++) {
        if (strcmp(name, names[i]) == 0) {
            *out = (ls_ddp_strategy)i;
            return LS_OK;
        }
    }
    return lsi_fail(LS_ERR_ARGUMENT, "unknown strategy \"%s\"; there are: %s",
                    name, all + strlen(", "));
}

ls_status lsi_strategy_of(const ls_ddp_options *options,
                          const lsi_strategy **out, uint64_t *bucket_bytes)
{
    const lsi_strategy *found;
    LS_TRY(lsi_strategy_find(options->strategy, &found));
    const double mb = options->bucket_mb;
    if (!(mb > 0)) /* nor NaN */
        return lsi_fail(LS_ERR_ARGUMENT,
                        "bucket_mb is %g; it must be above 0 (INFINITY: all "
                        "in one bucket)",
                        mb);
    if (found->buckets != LSI_BUCKETS_LIMIT && !isinf(mb))
        return lsi_fail(LS_ERR_ARGUMENT,
                        "bucket_mb is %g, but strategy \"%s\" has no buckets",
                        mb, ls_ddp_strategy_name(found->id));
    *out = found;
    *bucket_bytes = UINT64_MAX;
    if (found->buckets == LSI_BUCKETS_EACH)
        *bucket_bytes = 0;
    else if (mb * 1e6 < 0x1p63) /* a megabyte is a million bytes */
        *bucket_bytes = (uint64_t)(mb * 1e6);
    return LS_OK;
}

/*
 * The list of strategies, and what their options mean.
 */
#include "parallel/strategy.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "parallel/bucket.h"

static const lsi_strategy strategies[] = {
#define X(name, buckets, start, share, text)                                   \
    {#name, text, LSI_BUCKETS_##buckets, LSI_START_##start, LSI_SHARE_##share},
#include "parallel/strategies.def"
#undef X
};

enum { COUNT = sizeof(strategies) / sizeof(strategies[0]) };

static const char names[] =
#define X(name, buckets, start, share, text) ", " #name
#include "parallel/strategies.def"
#undef X
    ;

const lsi_strategy *lsi_strategies(size_t *n)
{
    *n = COUNT;
    return strategies;
}

ls_status lsi_strategy_find(const char *name, const lsi_strategy **out)
{
    for (size_t i = 0; i < COUNT; i++) {
        if (name != NULL && strcmp(name, strategies[i].name) == 0) {
            *out = &strategies[i];
            return LS_OK;
        }
    }
    return lsi_fail(LS_ERR_ARGUMENT, "unknown strategy \"%s\"; there are: %s",
                    name != NULL ? name : "(null)", names + strlen(", "));
}

ls_ddp_options ls_ddp_defaults(void)
{
    return (ls_ddp_options){.strategy = "flat", .bucket_mb = INFINITY};
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
                        mb, found->name);
    *out = found;
    *bucket_bytes = UINT64_MAX;
    if (found->buckets == LSI_BUCKETS_EACH)
        *bucket_bytes = 0;
    else if (mb * LSI_BUCKET_MB < 0x1p63)
        *bucket_bytes = (uint64_t)(mb * LSI_BUCKET_MB);
    return LS_OK;
}

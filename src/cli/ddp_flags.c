#include "cli/ddp_flags.h"

#include "parallel/strategy.h"

const char lsi_strategy_choices[] =
#define X(NAME, value, text) "|" text
    LS_DDP_STRATEGY_LIST(X);
#undef X

bool lsi_cli_ddp_options(const lsi_invocation *call, const lsi_ddp_flags *flags,
                         ls_ddp_options *out, int *exit_status)
{
    const lsi_strategy *strategy;
    uint64_t bucket_bytes;
    *out = ls_ddp_defaults();
    if (flags->bucket_mb > 0)
        out->bucket_mb = flags->bucket_mb;
    if (ls_ddp_strategy_parse(flags->strategy, &out->strategy) == LS_OK &&
        lsi_strategy_of(out, &strategy, &bucket_bytes) == LS_OK)
        return true;
    *exit_status = lsi_cli_usage("%s: %s", call->argv[0], ls_last_error());
    return false;
}

#include "cli/commands/ddp_flags.h"

#include <string.h>

#include "base/error.h"
#include "model/parallel/strategy.h"

const char lsi_strategy_choices[] = "auto"
#define X(NAME, value, text) "|" text
    LSI_DDP_STRATEGY_LIST(X);
#undef X

size_t lsi_cli_prefetch_layers(int64_t flag)
{
    return flag > 0 ? (size_t)flag : LS_DDP_NO_PREFETCH;
}

/* The options, without the strategy. */
static ls_ddp_options numbers_of(const lsi_ddp_flags *flags)
{
    ls_ddp_options out = LS_DDP_OPTIONS_INIT;
    out.bucket_bytes = lsi_bucket_bytes(flags->bucket_mb);
    out.prefetch_layers = lsi_cli_prefetch_layers(flags->prefetch_layers);
    return out;
}

ls_status lsi_cli_ddp_parse(const lsi_ddp_flags *flags, ls_ddp_options *out)
{
    lsi_strategy_names others;
    const lsi_strategy *found;
    *out = numbers_of(flags);
    if (flags->strategy != NULL)
        LS_TRY(ls_ddp_strategy_parse(flags->strategy, &out->strategy));
    LS_TRY(lsi_strategy_find(out->strategy, &found));
    if (flags->bucket_mb == 0 || found->buckets == LSI_BUCKETS_LIMIT)
        return LS_OK;
    return lsi_fail(
        LS_ERR_ARGUMENT,
        "--bucket-mb %.15g cannot be used with --strategy %s, which has no "
        "buckets: leave --bucket-mb out, or choose one of: %s",
        flags->bucket_mb, ls_ddp_strategy_name(found->id),
        lsi_strategies_with_buckets(&others));
}

bool lsi_cli_ddp_options(const lsi_ddp_flags *flags, ls_ddp_options *out,
                         bool *automatic, int *exit_status)
{
    *out = numbers_of(flags);
    *automatic = strcmp(flags->strategy, "auto") == 0;
    if (*automatic || lsi_cli_ddp_parse(flags, out) == LS_OK)
        return true;
    *exit_status = lsi_cli_usage("%s", ls_last_error());
    return false;
}

void lsi_cli_expect_strategy(lsi_run_about *about, const lsi_ddp_choice *choice,
                             int64_t choices)
{
    about->strategy = ls_ddp_strategy_name(choice->options.strategy);
    about->kept_lines += choices - lsi_ddp_choice_is_new(choice);
}

ls_status lsi_cli_log_strategy(lsi_run_log *log, const lsi_ddp_choice *choice)
{
    char text[LSI_DDP_CHOICE_TEXT];
    lsi_run_strategy line = {
        .name = ls_ddp_strategy_name(choice->options.strategy),
        .bucket_mb = lsi_bucket_mb(choice->options.bucket_bytes)};
    if (choice->reason == LSI_DDP_NAMED)
        return LS_OK;
    lsi_ddp_choice_describe(choice, text);
    lsi_run_log_say(log, "%s", text);
    if (!lsi_ddp_choice_is_new(choice))
        return LS_OK;
    for (size_t i = 0; i < choice->n; i++) {
        const lsi_ddp_candidate *const c = &choice->all[i];
        if (c->seconds <= 0)
            continue;
        line.measured[line.n].name = ls_ddp_strategy_name(c->options.strategy);
        line.measured[line.n++].seconds = c->seconds;
    }
    return lsi_run_log_strategy(log, &line);
}

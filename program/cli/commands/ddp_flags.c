#include "cli/commands/ddp_flags.h"

#include <string.h>

#include "base/error.h"
#include "cli/frame/list.h"
#include "comm/state/state.h"
#include "model/parallel/strategy.h"

const char lsi_strategy_choices[] = "auto"
#define X(NAME, value, text) "|" text
    LSI_DDP_STRATEGY_LIST(X);
#undef X

size_t lsi_cli_prefetch_layers(int64_t flag)
{
    return flag > 0 ? (size_t)flag : LS_DDP_NO_PREFETCH;
}

ls_status lsi_cli_shard_over(const char *text, size_t *out)
{
    lsi_list list = {.n = 0};
    *out = 0;
    if (text == NULL || strcmp(text, "all") == 0)
        return LS_OK;
    if (lsi_list_of_numbers("--shard-over", text, 1, LSI_MAX_RANKS, &list) !=
            LS_OK ||
        list.n != 1)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "--shard-over '%s' is not 'all' or a number of nodes "
                        "from 1 to %d",
                        text, LSI_MAX_RANKS);
    *out = (size_t)list.values[0];
    return LS_OK;
}

/* The options, without the strategy. */
static ls_status numbers_of(const lsi_ddp_flags *flags, ls_ddp_options *out)
{
    *out = (ls_ddp_options)LS_DDP_OPTIONS_INIT;
    out->bucket_bytes = lsi_bucket_bytes(flags->bucket_mb);
    out->prefetch_layers = lsi_cli_prefetch_layers(flags->prefetch_layers);
    return lsi_cli_shard_over(flags->shard_over, &out->shard_over);
}

ls_status lsi_cli_ddp_parse(const lsi_ddp_flags *flags, ls_ddp_options *out)
{
    lsi_strategy_names others;
    const lsi_strategy *found;
    LS_TRY(numbers_of(flags, out));
    if (flags->strategy != NULL)
        LS_TRY(ls_ddp_strategy_parse(flags->strategy, &out->strategy));
    LS_TRY(lsi_strategy_find(out->strategy, &found));
    if (out->shard_over != 0 && found->id != LS_DDP_FSDP)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "--shard-over %s cannot be used with --strategy %s, "
                        "which does not divide weights over nodes: leave "
                        "--shard-over out, or use --strategy fsdp",
                        flags->shard_over, ls_ddp_strategy_name(found->id));
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
    *automatic = strcmp(flags->strategy, "auto") == 0;
    if ((*automatic ? numbers_of(flags, out) : lsi_cli_ddp_parse(flags, out)) ==
        LS_OK)
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

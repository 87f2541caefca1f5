#include "cli/commands/ddp_flags.h"

#include <string.h>

#include "model/parallel/strategy.h"

const char lsi_strategy_choices[] = "auto"
#define X(NAME, value, text) "|" text
    LSI_DDP_STRATEGY_LIST(X);
#undef X

bool lsi_cli_ddp_options(const lsi_invocation *call, const lsi_ddp_flags *flags,
                         ls_ddp_options *out, bool *automatic, int *exit_status)
{
    const lsi_strategy *strategy;
    uint64_t bucket_bytes;
    *out = (ls_ddp_options)LS_DDP_OPTIONS_INIT;
    out->bucket_bytes = lsi_bucket_bytes(flags->bucket_mb);
    *automatic = strcmp(flags->strategy, "auto") == 0;
    if (*automatic)
        return true;
    if (ls_ddp_strategy_parse(flags->strategy, &out->strategy) == LS_OK &&
        lsi_strategy_of(out, &strategy, &bucket_bytes) == LS_OK)
        return true;
    *exit_status = lsi_cli_usage("%s: %s", call->argv[0], ls_last_error());
    return false;
}

void lsi_cli_expect_strategy(lsi_run_about *about, const lsi_ddp_choice *choice,
                             int64_t choices)
{
    about->strategy = ls_ddp_strategy_name(choice->options.strategy);
    about->kept_lines += choices - lsi_ddp_choice_is_new(choice);
}

ls_status lsi_cli_tell_strategy(lsi_run_log *log, const lsi_ddp_choice *choice)
{
    char text[LSI_DDP_CHOICE_TEXT];
    lsi_run_strategy told = {
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
        told.measured[told.n].name = ls_ddp_strategy_name(c->options.strategy);
        told.measured[told.n++].seconds = c->seconds;
    }
    return lsi_run_log_strategy(log, &told);
}

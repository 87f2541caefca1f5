#include "cli/commands/keep_flags.h"

#include <math.h>
#include <string.h>

#include "array/compute/threads.h"
#include "cli/frame/config_file.h"
#include "cli/frame/flags_json.h"

bool lsi_cli_check_keep(const lsi_keep_flags *flags, int *exit_status)
{
    const char *const other = flags->folder != NULL ? "--output-dir"
                              : flags->save != NULL ? "--save"
                                                    : NULL;
    if (!flags->nothing || other == NULL)
        return true;
    *exit_status = lsi_cli_usage(
        "--no-save and %s exclude each other; give one of them", other);
    return false;
}

void lsi_cli_settle_flags(const ls_group *group, lsi_rank_flags *ranks,
                          const lsi_recipe *settled, lsi_recipe *recipe,
                          const lsi_ddp_choice *choice, lsi_ddp_flags *ddp)
{
    const double bucket_mb = lsi_bucket_mb(choice->options.bucket_bytes);
    ranks->n = ls_group_size(group);
    ranks->threads = lsi_threads();
    recipe->lr = settled->lr;
    recipe->flags.weight_decay = settled->flags.weight_decay;
    recipe->warmup_steps = settled->warmup_steps;
    ddp->strategy = ls_ddp_strategy_name(choice->options.strategy);
    if (choice->reason != LSI_DDP_NAMED)
        ddp->bucket_mb = isfinite(bucket_mb) ? bucket_mb : 0;
}

lsi_keep lsi_cli_keep_of(const char *job, const lsi_keep_flags *flags,
                         const lsi_resume_options *resume)
{
    const bool elsewhere = flags->save != NULL || resume->folder != NULL;
    return (lsi_keep){.job = job,
                      .folder_wanted = flags->folder != NULL ||
                                       (!flags->nothing && !elsewhere),
                      .folder = flags->folder,
                      .file = flags->save,
                      .resumes = resume->resume};
}

void lsi_cli_keep_metrics(const lsi_keep *keep, lsi_run_outputs *outputs,
                          lsi_path *path)
{
    if (keep->place.text[0] == '\0' || outputs->metrics != NULL)
        return;
    *path = lsi_path_in(keep->place.text, LSI_KEEP_METRICS);
    outputs->metrics = path->text;
}

void lsi_cli_log_keep(lsi_run_log *log, const lsi_keep *keep)
{
    if (keep->place.text[0] != '\0')
        lsi_run_log_say(log, "results go to '%s'", keep->place.text);
}

/* Of optimizers that are not in use. */
static void drop_others(json_t *flags, const char *optimizer)
{
#define DROP(kind, owner, field, name, ...)                                    \
    if (strcmp(#owner, optimizer) != 0)                                        \
        (void)json_object_del(flags, name);
    LSI_OPTIMIZERS(LSI_OPTIMIZER_NOT, DROP)
#undef DROP
}

json_t *lsi_cli_used_flags(const lsi_invocation *call, const void *used,
                           const char *optimizer)
{
    json_t *const flags = lsi_cli_flags_json(call->command, used);
    (void)json_object_del(flags, LSI_CONFIG_NAME);
    /* --config repeats the whole run, even if it was resumed. */
    (void)json_object_del(flags, "resume");
    (void)json_object_del(flags, "new-schedule");
    drop_others(flags, optimizer);
    return flags;
}

ls_status lsi_cli_keep_flags(const lsi_invocation *call, const void *given,
                             const void *used, const char *optimizer,
                             const lsi_keep *keep)
{
    if (keep->place.text[0] == '\0')
        return LS_OK;
    json_t *const flags = lsi_cli_used_flags(call, used, optimizer);
    json_t *const chosen = lsi_cli_flags_chosen(call->command, given, used);
    (void)json_object_del(flags, "audit"); /* another run, another file */
    (void)json_array_extend(chosen,
                            (json_t *)(uintptr_t)lsi_cli_config_chosen());
    return lsi_keep_write_config(keep, call->argv[0], flags, chosen);
}

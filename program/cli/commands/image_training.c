/* The training of a network for images on one or more ranks. */
#include "cli/commands/image_training.h"

#include <string.h>

#include "array/compute/threads.h"
#include "base/bits.h"
#include "base/error.h"
#include "cli/commands/train_log.h"
#include "cli/frame/bits_flag.h"
#include "observe/memory_record.h"
#include "observe/span_file.h"

typedef struct session {
    const lsi_invocation *call;
    const lsi_image_flags *args;
    lsi_keep keep;
    lsi_path metrics; /* of the folder of the run */
    ls_ddp_options ddp;
    bool choose_ddp;
    ls_group *group;
    lsi_train_log log;
    lsi_audit_run audit;
} session;

static lsi_net_norm norm_of(const char *sync_bn)
{
    if (strcmp(sync_bn, "off") == 0)
        return LSI_NORM_LOCAL;
    return strcmp(sync_bn, "fused") == 0 ? LSI_NORM_FUSED : LSI_NORM_GATHERED;
}

static lsi_classify_options options_of(session *s)
{
    const lsi_image_flags *const a = s->args;
    return (lsi_classify_options){.name = a->name,
                                  .model = a->model,
                                  .data = a->data,
                                  .cifar100 = a->cifar100,
                                  .image_size = a->image_size,
                                  .augment = a->augment,
                                  .verify = a->verify,
                                  .label_smoothing = a->label_smoothing,
                                  .limit = a->limit,
                                  .epochs = a->epochs,
                                  .batch_size = a->batch_size,
                                  .accumulate = a->accumulate,
                                  .slices = a->slices,
                                  .prefetch = a->prefetch,
                                  .loader_threads = a->loader_threads,
                                  .recipe = a->recipe,
                                  .dtype = lsi_cli_dtype(a->dtype),
                                  .norm = norm_of(a->sync_bn),
                                  .ddp = s->ddp,
                                  .choose_ddp = s->choose_ddp,
                                  .dropout = a->dropout,
                                  .seed = (uint64_t)a->seed,
                                  .keep = &s->keep,
                                  .resume = a->resume,
                                  .audit = &s->audit};
}

static ls_status on_begin(void *context, const lsi_classify_start *start)
{
    session *const s = context;
    const lsi_image_flags *const a = s->args;
    lsi_run_outputs outputs = a->outputs;
    lsi_image_flags used = *a;
    lsi_cli_settle_flags(s->group, &used.ranks, start->recipe, &used.recipe,
                         start->choice, &used.ddp);
    lsi_cli_keep_metrics(&s->keep, &outputs, &s->metrics);
    LS_TRY(lsi_train_log_open(&s->log, start, &outputs));
    if (s->log.is_first && !a->outputs.quiet) {
        lsi_cli_dtype_advise(lsi_cli_dtype(a->dtype));
        lsi_cli_print_resume(&a->resume, start->step);
    }
    LS_TRY(lsi_cli_audit_describe(s->call, &used, used.recipe.optimizer,
                                  s->group, &s->audit));
    return lsi_cli_keep_flags(s->call, a, &used, used.recipe.optimizer,
                              &s->keep);
}

static void on_step(void *context, const lsi_progress_report *report)
{
    session *const s = context;
    lsi_train_log_step(&s->log, report);
}

static ls_status on_epoch(void *context, const lsi_epoch *epoch)
{
    session *const s = context;
    return lsi_train_log_epoch(&s->log, epoch);
}

static void on_saved(void *context, int64_t step, const char *folder)
{
    session *const s = context;
    lsi_run_log_saved(s->log.run, step, folder);
}

/* Runs as one rank. */
static int train(session *s)
{
    const lsi_classify_options job = options_of(s);
    const lsi_classify_events events = {.context = s,
                                        .begin = on_begin,
                                        .step = on_step,
                                        .epoch = on_epoch,
                                        .saved = on_saved};
    bool agreed = false;
    ls_status status = lsi_classify_train(s->group, &job, &events, &agreed);
    if (status == LS_OK && s->call->check == NULL)
        status = lsi_train_log_summary(&s->log);
    lsi_cli_print_audit(&s->audit, s->log.is_first);
    lsi_train_log_close(&s->log);
    return lsi_cli_train_exit(status, agreed && !s->log.is_first);
}

int lsi_cli_train_images(const lsi_invocation *call,
                         const lsi_image_flags *usual)
{
    lsi_image_flags a = *usual;
    session s = {.call = call, .args = &a};
    int exit_status;
    if (!lsi_cli_parse_config(call, &a, &exit_status) ||
        !lsi_cli_ddp_options(&a.ddp, &s.ddp, &s.choose_ddp, &exit_status) ||
        !lsi_cli_check_resume(&a.resume, &exit_status) ||
        !lsi_cli_check_keep(&a.keep, &exit_status))
        return exit_status;
    s.keep = lsi_cli_keep_of(a.name, &a.keep, &a.resume);
    s.audit = lsi_cli_audit_of(call, &a.audit);
    a.resume.most = call->check != NULL ? call->check->from : 0;
    if (!lsi_cli_set_bits(a.bits, a.dtype, &exit_status))
        return exit_status;
    if (lsi_bits_are_portable() && norm_of(a.sync_bn) == LSI_NORM_LOCAL)
        return lsi_cli_usage(
            "--sync-bn off does not go with --bits portable: each rank's "
            "statistics depend on the number of ranks; give --sync-bn fused or "
            "--bits fast");
    if (lsi_span_limit_steps("--trace-steps", a.outputs.trace_steps) != LS_OK)
        return lsi_cli_usage("%s", ls_last_error());
    if (!lsi_cli_as_rank(call, &a.ranks, 1, &exit_status))
        return exit_status;
    lsi_cli_set_deterministic(a.deterministic);
    if (lsi_span_start(a.outputs.trace) != LS_OK ||
        lsi_memory_record_in(a.outputs.memory) != LS_OK ||
        lsi_cli_open_group(a.ranks.threads, &s.group) != LS_OK)
        return lsi_cli_rank_error();
    s.log = (lsi_train_log){.is_first = ls_group_rank(s.group) == 0,
                            .name = a.sync_bn,
                            .about = {.job = a.name,
                                      .unit = "images",
                                      .resumes = a.resume.resume,
                                      .epochs = a.epochs,
                                      .ranks = ls_group_size(s.group),
                                      .threads = lsi_threads(),
                                      .model = a.model,
                                      .strategy = a.ddp.strategy,
                                      .dtype = a.dtype,
                                      .optimizer = a.recipe.optimizer},
                            .summary = {.data = a.data,
                                        .batch_size = a.batch_size,
                                        .accumulate = a.accumulate,
                                        .seed = (uint64_t)a.seed,
                                        .keep = &s.keep}};
    exit_status = train(&s);
    ls_group_close(&s.group);
    return exit_status;
}

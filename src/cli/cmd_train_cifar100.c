/*
 * lockstep train cifar100: the CIFAR-100 pipeline on one or more ranks.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/threads.h"
#include "cli/ddp_flags.h"
#include "cli/recipe_flags.h"
#include "cli/resume_flags.h"
#include "cli/train_log.h"
#include "command/command.h"
#include "command/dtype_flag.h"
#include "command/ranks.h"
#include "report/result.h"

typedef struct args {
    lsi_rank_flags ranks;
    const char *data;
    int64_t epochs, batch_size, accumulate, slices, limit, prefetch, seed;
    lsi_recipe recipe;
    const char *dtype;
    lsi_resume_options resume;
    const char *sync_bn;
    lsi_ddp_flags ddp;
    bool dropout, deterministic;
    const char *save, *metrics;
} args;

#define ROW(...) LSI_OPTION(args, __VA_ARGS__)
static const lsi_option options[] = {
    LSI_RANK_ROWS(ranks, "1"),
    LSI_DETERMINISTIC_ROW(deterministic),
    ROW(data, STRING, "data", 0, "PATH", NULL,
        "CIFAR-100 in binary form: a folder, .tar.gz or .tar.zst (default: a "
        "built-in set of the same shape)"),
    ROW(epochs, INT, "epochs", 'e', "N", "10", "passes over the data", .min = 1,
        .max = 1e6),
    ROW(batch_size, INT, "batch-size", 'b', "N", "64",
        "images of a rank in each micro-step", .min = 1, .max = 1e6),
    ROW(accumulate, INT, "accumulate", 0, "N", "1",
        "micro-steps for each step of the optimizer", .min = 1, .max = 1e6),
    ROW(slices, INT, "slices", 0, "N", NULL,
        "slices of the batches of all ranks together, a multiple of the ranks: "
        "with as many slices, batches of the same size over all ranks and no "
        "dropout, 1, 2, 4, ... ranks train the same weights (default 4 on 1, 2 "
        "and 4 ranks, else one for each)",
        .min = 1, .max = 65536),
#define USUAL_OPTIMIZER "sgd"
#include "cli/recipe_rows.def"
    LSI_DTYPE_ROW(dtype),
    ROW(sync_bn, CHOICE, "sync-bn", 0, "KIND", "fused",
        "batch normalisation over all ranks in one collective each way, in the "
        "usual way, or over each rank alone",
        .choices = "fused|gathered|off"),
    ROW(dropout, BOOL, "dropout", 0, NULL, "true", "drop activations"),
    LSI_DDP_ROWS(ddp),
    ROW(seed, INT, "seed", 's', "N", "0",
        "seed of initial weights, order of samples and dropout", .min = 0,
        .max = 9e15),
    ROW(limit, INT, "limit", 0, "N", "0",
        "train on the first N images only; 0: all (of the built-in set, N are "
        "made; 0: 5,000)",
        .min = 0, .max = 1e9),
    ROW(prefetch, INT, "prefetch", 0, "N", "0",
        "batches that a thread of its own reads ahead; 0: no thread", .min = 0,
        .max = 1024),
    ROW(save, STRING, "save", 0, "FILE", NULL,
        "write the trained model as safetensors"),
    ROW(metrics, STRING, "metrics", 0, "FILE", NULL,
        "write a line of JSON for each epoch"),
    LSI_RESUME_ROWS(resume),
};

typedef struct session {
    const args *args;
    ls_ddp_options ddp;
    ls_group *group;
    lsi_train_log log;
} session;

static lsi_net_norm norm_of(const char *sync_bn)
{
    if (strcmp(sync_bn, "off") == 0)
        return LSI_NORM_LOCAL;
    return strcmp(sync_bn, "fused") == 0 ? LSI_NORM_FUSED : LSI_NORM_GATHERED;
}

static lsi_classify_options options_of(const args *a, ls_ddp_options ddp)
{
    return (lsi_classify_options){.name = "cifar100",
                                  .model = "cifar-net",
                                  .data = a->data,
                                  .limit = a->limit,
                                  .epochs = a->epochs,
                                  .batch_size = a->batch_size,
                                  .accumulate = a->accumulate,
                                  .slices = a->slices,
                                  .prefetch = a->prefetch,
                                  .recipe = a->recipe,
                                  .dtype = lsi_cli_dtype(a->dtype),
                                  .norm = norm_of(a->sync_bn),
                                  .ddp = ddp,
                                  .dropout = a->dropout,
                                  .seed = (uint64_t)a->seed,
                                  .save = a->save,
                                  .resume = a->resume};
}

static ls_status on_begin(void *context, const lsi_classify_start *start)
{
    session *const s = context;
    const args *const a = s->args;
    if (s->log.quiet)
        return LS_OK;
    LS_TRY(lsi_result_check_file(a->save));
    LS_TRY(lsi_train_log_open(&s->log, a->metrics, start->epoch));
    fprintf(stderr,
            "cifar100: %" PRId64 " images to train, %" PRId64
            " to validate (%s); %d rank%s x %d thread%s\n",
            start->train_images, start->val_images,
            a->data != NULL ? a->data : "built-in", s->log.ranks,
            s->log.ranks == 1 ? "" : "s", lsi_threads(),
            lsi_threads() == 1 ? "" : "s");
    lsi_cli_dtype_note(lsi_cli_dtype(a->dtype));
    lsi_cli_tell_resume(&a->resume, start->step);
    return LS_OK;
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

/* Runs as one rank. */
static int train(session *s)
{
    const lsi_classify_options job = options_of(s->args, s->ddp);
    const lsi_classify_events events = {
        .context = s, .begin = on_begin, .step = on_step, .epoch = on_epoch};
    bool agreed = false;
    ls_status status = lsi_classify_train(s->group, &job, &events, &agreed);
    if (status == LS_OK)
        status = lsi_train_log_summary(&s->log);
    lsi_train_log_close(&s->log);
    return lsi_cli_rank_exit(status, agreed && s->log.quiet);
}

static int run(const lsi_invocation *call)
{
    args a;
    session s = {.args = &a};
    int exit_status;
    if (!lsi_cli_parse(call, &a, NULL, &exit_status) ||
        !lsi_cli_ddp_options(call, &a.ddp, &s.ddp, &exit_status) ||
        !lsi_cli_check_resume(call, &a.resume, &exit_status) ||
        !lsi_cli_as_rank(call, &a.ranks, 1, &exit_status))
        return exit_status;
    lsi_cli_set_deterministic(a.deterministic);
    if (lsi_cli_open_group(a.ranks.threads, &s.group) != LS_OK)
        return lsi_cli_rank_error();
    s.log = (lsi_train_log){.quiet = ls_group_rank(s.group) != 0,
                            .name = a.sync_bn,
                            .ranks = ls_group_size(s.group),
                            .epochs = a.epochs};
    exit_status = train(&s);
    ls_group_close(&s.group);
    return exit_status;
}

const lsi_command lsi_command_train_cifar100 = {
    .name = "cifar100",
    .summary = "Train a small network to tell 100 classes of images apart",
    .text =
        "Progress goes to stderr, the summary to stdout. A line of --metrics "
        "is {\"event\":\"epoch\", \"epoch\", \"train_loss\", "
        "\"train_accuracy\", \"train_seconds\", \"images_per_second\", "
        "\"val_loss\", \"val_accuracy\", \"peak_bytes\", \"collectives\"}: "
        "peak_bytes is the most that the largest rank held at once in the "
        "epoch, collectives what the group did in it, validation included. "
        "With --dtype f16 there are \"loss_scale\", the one after the epoch, "
        "and \"skipped\", how many steps were skipped so far. A run with "
        "--resume leaves the lines of epochs before its checkpoint and writes "
        "the others again.",
    .options = options,
    .n_options = sizeof(options) / sizeof(options[0]),
    .run = run,
};

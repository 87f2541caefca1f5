/*
 * The flags for the result of a run, for every command that trains:
 *
 *     struct args { lsi_keep_flags keep; ... };
 *     #define ROW(...) LSI_OPTION(struct args, __VA_ARGS__)
 *     static const lsi_option options[] = {LSI_KEEP_ROWS(keep, "..."), ...};
 */
#ifndef LS_CLI_COMMANDS_KEEP_FLAGS_H
#define LS_CLI_COMMANDS_KEEP_FLAGS_H

#include <jansson.h>

#include "cli/commands/ddp_flags.h"
#include "cli/frame/command.h"
#include "cli/frame/ranks.h"
#include "report/run_log.h"
#include "train/keep.h"
#include "train/resume.h"

typedef struct lsi_keep_flags {
    const char *folder, *save; /* or NULL */
    bool nothing;              /* --no-save */
} lsi_keep_flags;

#define LSI_KEEP_ROWS(field, reader)                                           \
    ROW(field.folder, STRING, "output-dir", 0, "DIR", NULL,                    \
        "folder for the result: model, metrics, flags (default: "              \
        "runs/JOB-DATE-N; no folder with --save or --checkpoint-dir; "         \
        "docs/reference/training-output.md)"),                                 \
        ROW(field.save, STRING, "save", 0, "FILE", NULL,                       \
            "write the trained model to this safetensors file" reader),        \
        ROW(field.nothing, BOOL, "no-save", 0, NULL, NULL,                     \
            "write no result; checkpoints are still written")

/*
 * Fills in the values of flags that were not given: ranks and threads, learning
 * rate, weight decay and warm-up, and the chosen strategy.
 */
void lsi_cli_settle_flags(const ls_group *group, lsi_rank_flags *ranks,
                          const lsi_recipe *settled, lsi_recipe *recipe,
                          const lsi_ddp_choice *choice, lsi_ddp_flags *ddp);

/* False, with a usage error printed, if the flags contradict each other. */
bool lsi_cli_check_keep(const lsi_keep_flags *flags, int *exit_status);

/* The keep that the flags describe. */
lsi_keep lsi_cli_keep_of(const char *job, const lsi_keep_flags *flags,
                         const lsi_resume_options *resume);

/*
 * Lines of metrics that no flag sends elsewhere go to the folder:
 * outputs->metrics is then in *path, which must outlive the outputs.
 */
void lsi_cli_keep_metrics(const lsi_keep *keep, lsi_run_outputs *outputs,
                          lsi_path *path);

/* The first line of all: where the result goes. */
void lsi_cli_log_keep(lsi_run_log *log, const lsi_keep *keep);

/*
 * The flags as a run uses them, to repeat the whole run: without flags of other
 * optimizers, --config and --resume. NULL without memory.
 */
json_t *lsi_cli_used_flags(const lsi_invocation *call, const void *used,
                           const char *optimizer);

/*
 * Writes the flags to the folder, and which of them the run has chosen. Call it
 * when nothing can be refused any more. The values are those of the call's
 * command as given, and as the run uses them. Flags of other optimizers are
 * left out, as is --config.
 */
ls_status lsi_cli_keep_flags(const lsi_invocation *call, const void *given,
                             const void *used, const char *optimizer,
                             const lsi_keep *keep);

#endif

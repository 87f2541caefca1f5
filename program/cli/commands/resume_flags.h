/*
 * The flags of checkpoints, for every command that trains.
 *
 *     struct args { lsi_resume_options resume; ... };
 *     #define ROW(...) LSI_OPTION(struct args, __VA_ARGS__)
 *     static const lsi_option options[] = {LSI_RESUME_ROWS(resume), ...};
 */
#ifndef LS_CLI_COMMANDS_RESUME_FLAGS_H
#define LS_CLI_COMMANDS_RESUME_FLAGS_H

#include "cli/frame/command.h"
#include "train/resume.h"

#define LSI_RESUME_ROWS(field)                                                 \
    ROW(field.folder, STRING, "checkpoint-dir", 0, "DIR", NULL,                \
        "folder for this run's checkpoints (docs/how-to/checkpoints.md)"),     \
        ROW(field.every, INT, "save-every", 0, "N", "0",                       \
            "optimizer steps between checkpoints; 0: no checkpoints",          \
            .min = 0, .max = 1e12),                                            \
        ROW(field.keep, INT, "keep", 0, "K", "2",                              \
            "number of newest checkpoints to keep; 0: all", .min = 0,          \
            .max = 1e6),                                                       \
        ROW(field.resume, BOOL, "resume", 0, NULL, NULL,                       \
            "resume from the newest checkpoint as if the run had not ended; "  \
            "without a checkpoint, start from the beginning"),                 \
        ROW(field.new_schedule, BOOL, "new-schedule", 0, NULL, NULL,           \
            "resume with the learning rate and schedule that the flags set, "  \
            "instead of those in the checkpoint")

/*
 * Whether the flags fit together; if not, prints the usage error and sets
 * *exit_status. Completes the flags by the launcher's variables about restarts.
 */
bool lsi_cli_check_resume(lsi_resume_options *flags, int *exit_status);

/*
 * Prints the step where a run with --resume begins on stderr; 0: the beginning.
 */
void lsi_cli_print_resume(const lsi_resume_options *flags, int64_t step);

/*
 * As lsi_cli_rank_exit, for training. If a signal has ended the run, prints
 * what was saved, and the exit status is 128 + the signal's number.
 * LSI_EXIT_DIVERGED if the run has diverged.
 */
int lsi_cli_train_exit(ls_status status, bool shared);

#endif

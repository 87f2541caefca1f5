#include "cli/commands/resume_flags.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/printable.h"
#include "cli/frame/ranks.h"
#include "report/paragraph.h"
#include "train/divergence.h"
#include "train/stop.h"

/*
 * Ranks that the launcher has started again resume from a save of their run,
 * not from earlier files of the folder.
 */
static void go_on_after_restart(lsi_resume_options *flags)
{
    const char *const restart = getenv("LOCKSTEP_RESTART");
    flags->run = getenv("LOCKSTEP_RUN");
    flags->of_run_only = false; /* no flag has set it */
    if (flags->run == NULL || flags->folder == NULL || flags->resume ||
        restart == NULL || strtol(restart, NULL, 10) <= 0)
        return;
    flags->resume = true;
    flags->of_run_only = true;
}

bool lsi_cli_check_resume(lsi_resume_options *flags, int *exit_status)
{
    const bool used = flags->every > 0 || flags->resume;
    if (flags->new_schedule && !flags->resume) {
        *exit_status = lsi_cli_usage("--new-schedule needs --resume");
        return false;
    }
    if (used == (flags->folder != NULL)) {
        go_on_after_restart(flags);
        return true;
    }
    if (used)
        *exit_status =
            lsi_cli_usage("%s needs --checkpoint-dir DIR",
                          flags->resume ? "--resume" : "--save-every");
    else
        *exit_status =
            lsi_cli_usage("--checkpoint-dir needs --save-every N or --resume");
    return false;
}

void lsi_cli_print_resume(const lsi_resume_options *flags, int64_t step)
{
    if (!flags->resume)
        return;
    const lsi_printable_name folder = lsi_printable_of(flags->folder);
    if (step > 0)
        lsi_paragraph(stderr, "resumed after step %" PRId64 " from '%s'", step,
                      folder.text);
    else
        lsi_paragraph(stderr,
                      "no checkpoint in '%s' yet: starting from the beginning",
                      folder.text);
}

int lsi_cli_train_exit(ls_status status, bool shared)
{
    const int number = lsi_stop_ended();
    if (number == 0) {
        const int exit_status = lsi_cli_rank_exit(status, shared);
        return lsi_divergence_ended() ? LSI_EXIT_DIVERGED : exit_status;
    }
    if (!shared)
        (void)lsi_cli_error();
    return 128 + number;
}

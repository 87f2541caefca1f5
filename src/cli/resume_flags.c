#include "cli/resume_flags.h"

#include <inttypes.h>

bool lsi_cli_check_resume(const lsi_invocation *call,
                          const lsi_resume_options *flags, int *exit_status)
{
    const bool used = flags->every > 0 || flags->resume;
    if (used == (flags->folder != NULL))
        return true;
    if (used)
        *exit_status =
            lsi_cli_usage("%s: %s needs --checkpoint-dir DIR", call->argv[0],
                          flags->resume ? "--resume" : "--save-every");
    else
        *exit_status = lsi_cli_usage(
            "%s: --checkpoint-dir needs --save-every N or --resume",
            call->argv[0]);
    return false;
}

void lsi_cli_tell_resume(const lsi_resume_options *flags, int64_t step)
{
    if (!flags->resume)
        return;
    if (step > 0)
        fprintf(stderr, "resumed after step %" PRId64 " from '%s'\n", step,
                flags->folder);
    else
        fprintf(stderr,
                "no checkpoint in '%s' yet: starting from the beginning\n",
                flags->folder);
}

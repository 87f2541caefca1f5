/*
 * Which output of which rank `lockstep run` shows, from torchrun's flags.
 */
#ifndef LS_CLI_RANK_OUTPUTS_H
#define LS_CLI_RANK_OUTPUTS_H

#include <stdbool.h>

#include "launch/launch.h"

typedef struct lsi_output_flags {
    bool tagged;           /* --tag-output */
    const char *redirects; /* -r: streams that go to the logs only, or NULL */
    const char *tee;       /* -t: streams that are tagged as well, or NULL */
    const char *filter;    /* --local-ranks-filter: ranks to show, or NULL */
    const char *log_folder;
} lsi_output_flags;

/*
 * *out has an element for each rank and is freed by the caller with free(); it
 * is NULL if all output goes to the console as it is. LS_ERR_ARGUMENT says
 * which flag is wrong and what would be right.
 */
ls_status lsi_rank_outputs_read(const lsi_output_flags *flags, int ranks,
                                lsi_rank_output **out);

#endif

/*
 * Which output of which rank `lockstep run` shows, from torchrun's flags.
 */
#ifndef LS_CLI_COMMANDS_RANK_OUTPUTS_H
#define LS_CLI_COMMANDS_RANK_OUTPUTS_H

#include <stdbool.h>
#include <stdint.h>

#include "launch/launch.h"

typedef struct lsi_output_flags {
    bool tagged;           /* --tag-output */
    const char *redirects; /* -r: streams that go to the logs only, or NULL */
    const char *tee;       /* -t: streams that are tagged as well, or NULL */
    const char *filter;    /* --local-ranks-filter: ranks to show, or NULL */
    const char *log_folder;
    const char *console; /* --console: "all", "rank0" */
    int64_t log_size;    /* --log-size; 0: any */
    const char *report;  /* --json of run, or NULL */
    int64_t log_files;   /* --log-files; 0: all */
} lsi_output_flags;

/*
 * Fills in what the launcher goes by for output. wanted->of_ranks, which is
 * *out and freed by the caller with free(), has an element for each rank; it is
 * NULL if all output goes to the console as it is. The message of
 * LS_ERR_ARGUMENT names the wrong flag and a right value.
 */
ls_status lsi_rank_outputs_read(const lsi_output_flags *flags, int ranks,
                                lsi_launch_output *wanted,
                                lsi_rank_output **out);

#endif

/*
 * `lockstep run --hosts`: its flags, and what goes to the hosts of them.
 */
#ifndef LS_CLI_COMMANDS_RUN_OVER_SSH_H
#define LS_CLI_COMMANDS_RUN_OVER_SSH_H

#include <stdbool.h>
#include <stddef.h>

#include "base/options.h"
#include "cli/frame/command.h"

typedef struct lsi_over_ssh_flags {
    const char *hosts;    /* --hosts: a list or a file; NULL: this host only */
    const char *agent;    /* --ssh */
    const char *exported; /* -x, the last: all are looked for in the words */
    bool on_host;         /* --on-host: this is what ssh has started */
} lsi_over_ssh_flags;

/*
 * Starts the job and returns its exit status. `rows` are the flags of the
 * command, `rest` is where the program stands in its words.
 */
int lsi_run_over_ssh(const lsi_over_ssh_flags *flags,
                     const lsi_invocation *call, int rest,
                     const lsi_option *rows, size_t n_rows);

#endif

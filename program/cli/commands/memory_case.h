/*
 * A model whose memory is recorded, in a process of its own: what it had before
 * is known, and what it has taken is not taken again from what another left.
 */
#ifndef LS_CLI_COMMANDS_MEMORY_CASE_H
#define LS_CLI_COMMANDS_MEMORY_CASE_H

#include "cli/bench/lm_case.h"
#include "report/memory_file.h"

typedef struct lsi_memory_case {
    const char *size;
    lsi_lm_case lm; /* with its first fields set */
    int64_t steps, budget, threads;
} lsi_memory_case;

typedef struct lsi_memory_outcome {
    ls_status status; /* of the model; LS_OK, or why it has no numbers */
    char message[1024];
    int64_t peak; /* more bytes counted than before, at most */
    /* More bytes resident than before, at most, but for pages of files, which
       are the code of libraries; and those. -1: the kernel does not say. */
    int64_t resident, files;
    lsi_memory_file *file; /* the recording, or NULL; the caller's */
} lsi_memory_outcome;

/*
 * Runs it. What goes wrong with the model is in the outcome; an error is one of
 * starting and reading it.
 */
ls_status lsi_memory_case_run(const lsi_memory_case *c,
                              lsi_memory_outcome *out);

#endif

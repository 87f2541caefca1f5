/*
 * A model whose memory is recorded, in a separate process. The memory in use
 * before the model is known, and the model does not reuse memory that another
 * one left.
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
    int64_t peak; /* most additional bytes counted */
    /*
     * Most additional resident bytes: without pages of files, which are the
     * code of libraries; and of these pages. -1: unknown to the kernel.
     */
    int64_t resident, files;
    lsi_memory_file *file; /* the recording, or NULL; the caller's */
} lsi_memory_outcome;

/*
 * Runs the case. The outcome has errors of the model; the status has those of
 * starting the process and reading from it.
 */
ls_status lsi_memory_case_run(const lsi_memory_case *c,
                              lsi_memory_outcome *out);

#endif

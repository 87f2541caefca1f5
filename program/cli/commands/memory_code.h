/*
 * The line of a model that has allocated a block: the innermost call that is
 * neither in the library nor in one of its layers. It follows from the stack in
 * the recording and the files that were mapped then.
 */
#ifndef LS_CLI_COMMANDS_MEMORY_CODE_H
#define LS_CLI_COMMANDS_MEMORY_CODE_H

#include "report/memory_file.h"

typedef struct lsi_memory_code lsi_memory_code;

/* NULL if the files are not there as they were, or nothing can be known. */
lsi_memory_code *lsi_memory_code_open(const lsi_memory_file *file);
void lsi_memory_code_free(lsi_memory_code **code);

/* "attend at lib/model/nn/transformer.c:207", or "". Accepts a NULL code. */
void lsi_memory_code_of(lsi_memory_code *code, const lsi_memory_block *block,
                        char *out, size_t room);

#endif

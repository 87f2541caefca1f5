/*
 * The output of `lockstep memory` for one recording: tables of the holders of
 * memory at the peak. The JSON also has the course over time.
 */
#ifndef LS_CLI_COMMANDS_MEMORY_TABLES_H
#define LS_CLI_COMMANDS_MEMORY_TABLES_H

#include <jansson.h>

#include "cli/commands/memory_code.h"
#include "report/memory_profile.h"

/* A tensor of the residual stream, if the model is known. */
typedef struct lsi_memory_residual {
    int64_t batch, context, d_model; /* 0: it is not */
} lsi_memory_residual;

/*
 * Rows of each table; of the largest blocks half as many. Tables that are not
 * wide fit lines of 100 characters, where names are not longer than usual.
 */
ls_status lsi_memory_print(const lsi_memory_file *file,
                           lsi_memory_residual residual, size_t most,
                           bool wide);

/* The recording as JSON; NULL without memory. */
json_t *lsi_memory_json(const lsi_memory_file *file,
                        lsi_memory_residual residual);

/* The course as a picture. LS_ERR_NOT_FOUND without gnuplot. */
ls_status lsi_memory_picture(const lsi_memory_file *file, const char *path);

#endif

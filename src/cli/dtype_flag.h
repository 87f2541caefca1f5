/*
 * --dtype of commands that train: the type of matrix products.
 */
#ifndef LS_CLI_DTYPE_FLAG_H
#define LS_CLI_DTYPE_FLAG_H

#include "base/options.h"
#include "lockstep/types.h"

#define LSI_DTYPE_ROW(field)                                                   \
    ROW(field, CHOICE, "dtype", 0, "TYPE", "f32",                              \
        "of what matrix products multiply; parameters, gradients and sums "    \
        "stay f32; with f16 losses are scaled",                                \
        .choices = "f32|bf16|f16")

/* The type that a value of the flag names. */
ls_dtype lsi_cli_dtype(const char *name);

/*
 * Says on stderr what half products mean for this processor's speed; nothing
 * for f32.
 */
void lsi_cli_dtype_note(ls_dtype dtype);

#endif

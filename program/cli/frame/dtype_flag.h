/*
 * --dtype of commands that train: the type of matrix products.
 */
#ifndef LS_CLI_FRAME_DTYPE_FLAG_H
#define LS_CLI_FRAME_DTYPE_FLAG_H

#include "base/options.h"
#include "lockstep/types.h"

#define LSI_DTYPE_ROW(field)                                                   \
    ROW(field, DTYPE, "dtype", 0, "TYPE", "f32",                               \
        "data type of the inputs of matrix products (parameters, gradients "   \
        "and sums stay f32; f16 also scales losses)",                          \
        .choices = "f32|bf16|f16")

/* --dtype of benchmarks: a list of them, each to be measured. */
#define LSI_DTYPES_ROW(field)                                                  \
    ROW(field, LIST, "dtype", 0, "TYPE,...", "f32",                            \
        "data types of the inputs of matrix products: f32, bf16")

typedef struct lsi_dtype_list {
    ls_dtype values[LS_DTYPE_COUNT];
    int n;
} lsi_dtype_list;

/* The types that a value of that flag names. */
ls_status lsi_cli_dtypes(const char *text, lsi_dtype_list *out);

/* The type that a value of the flag names. */
ls_dtype lsi_cli_dtype(const char *name);

/*
 * Prints the effect of half products on this processor's speed on stderr;
 * nothing for f32.
 */
void lsi_cli_dtype_note(ls_dtype dtype);

/*
 * Prints the effect of the type on training; with f32 the gain of bf16, if any.
 */
void lsi_cli_dtype_advise(ls_dtype dtype);

#endif

/* --bits: which bits results have. */
#ifndef LS_CLI_FRAME_BITS_FLAG_H
#define LS_CLI_FRAME_BITS_FLAG_H

#include <stdbool.h>

#include "base/options.h"

#define LSI_BITS_ROW(field)                                                    \
    ROW(field, CHOICE, "bits", 0, "KIND", NULL,                                \
        "bits of results (portable: the same on every processor, in f32, for " \
        "any number of threads; fast: those of the fastest way on this "       \
        "processor; default: LOCKSTEP_BITS, or fast)",                         \
        .choices = "fast|portable")

/*
 * Applies the flag, which may be NULL, to this process and the ranks that it
 * starts. `dtype` is the value of --dtype, or NULL. false: portable bits do not
 * go with it; the command then returns *exit_status.
 */
bool lsi_cli_set_bits(const char *bits, const char *dtype, int *exit_status);

#endif

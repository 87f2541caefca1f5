/*
 * Other names of flags and commands that users type: older names, and those of
 * other programs.
 */
#ifndef LS_CLI_FRAME_WORDS_H
#define LS_CLI_FRAME_WORDS_H

#include <stddef.h>

#include "base/options.h"

/* Rows for lsi_options_parse. */
const lsi_option_word *lsi_cli_flag_words(size_t *n);

/* A word in the place of a command. */
typedef struct lsi_command_word {
    const char *parent; /* of the command: "", "train" */
    const char *typed;
    const char
        *instead; /* the command line without its first word, "lockstep" */
    bool retired; /* an older name of the same */
} lsi_command_word;

/* The row of a word, or NULL. */
const lsi_command_word *lsi_cli_command_word(const char *parent,
                                             const char *typed);

#endif

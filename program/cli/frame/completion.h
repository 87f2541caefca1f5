/*
 * Completion of the command line in shells, made from the commands' constants.
 */
#ifndef LS_CLI_FRAME_COMPLETION_H
#define LS_CLI_FRAME_COMPLETION_H

#include <stdio.h>

#include "cli/frame/command.h"

/* Prints a script by which that shell completes `lockstep`. */
void lsi_completion_bash(FILE *stream, const lsi_command *root);
void lsi_completion_zsh(FILE *stream, const lsi_command *root);
void lsi_completion_fish(FILE *stream, const lsi_command *root);

#endif

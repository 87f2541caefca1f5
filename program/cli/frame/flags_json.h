/*
 * The flags of a command as JSON, by their names: a file that repeats the flags
 * of a run.
 */
#ifndef LS_CLI_FRAME_FLAGS_JSON_H
#define LS_CLI_FRAME_FLAGS_JSON_H

#include <jansson.h>

#include "cli/frame/command.h"

/*
 * An object with the value of each flag in a struct that lsi_cli_parse has
 * filled: defaults, too, but not those flags that have none and were not given.
 * Choices and paths are strings. NULL without memory.
 */
json_t *lsi_cli_flags_json(const lsi_command *command, const void *values);

/*
 * The names of the flags whose values differ between two such structs: the
 * choices of a run, by the values as given and as used. NULL without memory.
 */
json_t *lsi_cli_flags_chosen(const lsi_command *command, const void *given,
                             const void *used);

#endif

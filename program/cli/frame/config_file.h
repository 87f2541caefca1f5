/*
 * --config FILE: flags that a file of JSON has by their names. The run.json of
 * a result is one, whose flags are in its member "flags":
 *
 *     {"steps": 2000, "lr": 3e-4, "schedule": "cosine", "untied-head": true}
 *
 * Flags on the command line take precedence over those of the file. They drop
 * the file's flags that contradict them or that a run had chosen because of
 * others (config_rules.h).
 */
#ifndef LS_CLI_FRAME_CONFIG_FILE_H
#define LS_CLI_FRAME_CONFIG_FILE_H

#include <jansson.h>

#include "cli/frame/command.h"

#define LSI_CONFIG_NAME "config"
#define LSI_CONFIG_ROW(field)                                                  \
    ROW(field, STRING, LSI_CONFIG_NAME, 0, "FILE", NULL,                       \
        "read flags from this JSON file, such as the run.json of an earlier "  \
        "run; flags on the command line override those of the file "           \
        "(docs/how-to/training.md)")

/*
 * Fills `out` with defaults and then with the flags of the file, whatever the
 * call has. The message names the fault of the file. Texts of the file are
 * valid until the next call of either function.
 */
ls_status lsi_cli_read_config(const lsi_invocation *call, const char *path,
                              void *out);

/*
 * As lsi_cli_parse without a rest, of a command with that row, which is a
 * string. A line on stderr names the flags of the file that were dropped.
 */
bool lsi_cli_parse_config(const lsi_invocation *call, void *out,
                          int *exit_status);

/*
 * After that: the names of flags whose values the run of the file had chosen,
 * and which this call leaves as they are. NULL or empty: none.
 */
const json_t *lsi_cli_config_chosen(void);

/*
 * The invocation of a command, by its full name, with these flags. Its words
 * are valid until the next call of a function here.
 */
ls_status lsi_cli_invocation_of(const lsi_command *command, char *name,
                                json_t *flags, lsi_invocation *out);

#endif

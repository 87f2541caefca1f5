/*
 * Which flags of a --config file the command line drops:
 *
 * - flags that exclude one of the command line, and
 * - values that an earlier run had chosen, if the command line changes what
 *   they follow from.
 */
#ifndef LS_CLI_FRAME_CONFIG_RULES_H
#define LS_CLI_FRAME_CONFIG_RULES_H

#include <jansson.h>
#include <stdbool.h>

/*
 * Removes such flags from `flags`, those of the file. `file` and `both` are the
 * values of all flags by lsi_cli_flags_json: without the command line, and with
 * it. `chosen` is the list of names that a run had chosen, or NULL. Returns
 * whether a flag was removed.
 */
bool lsi_config_rules_apply(const json_t *file, const json_t *both,
                            const json_t *chosen, json_t *flags);

#endif

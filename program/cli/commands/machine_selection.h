/*
 * Whether the collectives of this machine are tuned: its selection table
 * (comm/api/machine_table.h), as users are told of it.
 */
#ifndef LS_CLI_COMMANDS_MACHINE_SELECTION_H
#define LS_CLI_COMMANDS_MACHINE_SELECTION_H

#include <limits.h>
#include <stdbool.h>

enum { LSI_SELECTION_TEXT = PATH_MAX + 1024 };

/*
 * The path of the table; or "none ..." or "ignored ..." with the reason. True
 * if groups on the CPUs of this process use the table, and it was measured
 * while the machine was not busy (base/busy.h).
 */
bool lsi_machine_selection(char out[LSI_SELECTION_TEXT]);

#endif

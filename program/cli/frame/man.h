/*
 * Manual pages, made from the commands' constants.
 */
#ifndef LS_CLI_FRAME_MAN_H
#define LS_CLI_FRAME_MAN_H

#include "cli/frame/command.h"

/*
 * Writes lockstep.1 and lockstep-COMMAND.1 of every command into a folder that
 * exists. The message of LS_ERR_IO names the file that could not be written.
 */
ls_status lsi_man_write(const lsi_command *root, const char *folder);

#endif

/* Lines that several processes print to one place. */
#ifndef LS_CLI_COMMANDS_PRINT_H
#define LS_CLI_COMMANDS_PRINT_H

#include "lockstep/status.h"

/*
 * Writes a formatted text to standard output at once and in one piece: the
 * order in which ranks call it is the order in which it appears.
 */
ls_status lsi_print_now(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

#endif

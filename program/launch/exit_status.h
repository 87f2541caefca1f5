/*
 * Exit statuses of the program; docs/exit-status.md says what each means. A
 * process that signal n ended has 128 + n, as in shells (signals.h).
 */
#ifndef LS_LAUNCH_EXIT_STATUS_H
#define LS_LAUNCH_EXIT_STATUS_H

enum {
    LSI_EXIT_ERROR = 1,
    LSI_EXIT_USAGE = 2,
    LSI_EXIT_TIMEOUT = 124,
    LSI_EXIT_CANNOT_RUN = 126,
    LSI_EXIT_NOT_FOUND = 127
};

#endif

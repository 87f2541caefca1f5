/*
 * Exit statuses of the program; docs/reference/exit-status.md explains each. A
 * process ended by signal n has status 128 + n, as in shells (signals.h).
 */
#ifndef LS_LAUNCH_EXIT_STATUS_H
#define LS_LAUNCH_EXIT_STATUS_H

#include <stddef.h>
#include <stdio.h>

enum {
    LSI_EXIT_ERROR = 1,
    LSI_EXIT_USAGE = 2,
    LSI_EXIT_DIFFERS = 3,   /* `lockstep audit` has found a difference */
    LSI_EXIT_DIVERGED = 65, /* training; sysexits.h: the data are wrong */
    LSI_EXIT_TIMEOUT = 124,
    LSI_EXIT_CANNOT_RUN = 126,
    LSI_EXIT_NOT_FOUND = 127
};

/*
 * The reason why a new start of the program would end with this status again;
 * NULL: it may end otherwise.
 */
static inline const char *lsi_exit_repeats(int status)
{
    if (status == LSI_EXIT_USAGE)
        return "the command line is wrong";
    return status == LSI_EXIT_DIVERGED ? "training has diverged" : NULL;
}

/* Why a job that failed is not started again, after this many restarts. */
static inline void lsi_exit_describe(int status, int restarts, int limit,
                                     char *out, size_t bytes)
{
    const char *const repeats = lsi_exit_repeats(status);
    if (repeats != NULL)
        snprintf(out, bytes, "no restart: exit status %d means that %s", status,
                 repeats);
    else
        snprintf(out, bytes, "given up after %d restart%s%s", restarts,
                 restarts == 1 ? "" : "s",
                 restarts == limit ? " (the limit of --max-restarts)" : "");
}

#endif

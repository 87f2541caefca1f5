/*
 * A console that stays readable when many ranks write: `--console rank0`. It
 * shows the error streams of all ranks except 0. Equal lines from several ranks
 * within a tenth of a second are joined, so that a traceback of all ranks is
 * shown once. After 200 lines in a second, further lines are only counted.
 * Times are seconds of any monotonic clock.
 */
#ifndef LS_LAUNCH_CONSOLE_H
#define LS_LAUNCH_CONSOLE_H

#include <stdbool.h>
#include <stddef.h>

#include "lockstep/status.h"

enum { LSI_CONSOLE_LINES_A_SECOND = 200 };

/* Accepts whole lines; false: no room for them. */
typedef bool (*lsi_console_put)(void *context, const char *text, size_t bytes);

typedef struct lsi_console lsi_console;

/* `host` is printed at the start of each line and is copied. */
ls_status lsi_console_new(const char *host, lsi_console_put put, void *context,
                          lsi_console **out);
void lsi_console_free(lsi_console *console); /* NULL is fine */

/* Sets the folder that has the complete output of the ranks, or NULL. */
void lsi_console_set_logs(lsi_console *console, const char *folder);

/* Adds a line of a rank, without its line end. */
void lsi_console_line(lsi_console *console, double now, int rank,
                      const char *line, size_t bytes);

/* Whether a line that is shown elsewhere is still within the limit. */
bool lsi_console_admits(lsi_console *console, double now);

/* Shows the lines whose waiting time is over. */
void lsi_console_pass(lsi_console *console, double now);

/* The next time to call lsi_console_pass; 0: no line waits. */
double lsi_console_next(const lsi_console *console);

/* Shows all waiting lines. */
void lsi_console_finish(lsi_console *console, double now);

#endif

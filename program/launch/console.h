/*
 * A console that can be read although many ranks write: `--console rank0`. Of
 * all ranks but 0 it gets the lines of their error streams. Lines are put
 * together that are equal and come from several ranks within a tenth of a
 * second, so that a traceback of all ranks is one; and after 200 lines of a
 * second the others are only counted.
 *
 * Times are seconds of any clock that does not go back.
 */
#ifndef LS_LAUNCH_CONSOLE_H
#define LS_LAUNCH_CONSOLE_H

#include <stdbool.h>
#include <stddef.h>

#include "lockstep/status.h"

enum { LSI_CONSOLE_LINES_A_SECOND = 200 };

/* Takes whole lines; false: there is no room for them. */
typedef bool (*lsi_console_put)(void *context, const char *text, size_t bytes);

typedef struct lsi_console lsi_console;

/* `host` stands before each line and is copied. */
ls_status lsi_console_new(const char *host, lsi_console_put put, void *context,
                          lsi_console **out);
void lsi_console_free(lsi_console *console); /* NULL is fine */

/* Where all output of the ranks is, or NULL: nowhere. */
void lsi_console_set_logs(lsi_console *console, const char *folder);

/* A line of a rank, without its end. */
void lsi_console_line(lsi_console *console, double now, int rank,
                      const char *line, size_t bytes);

/* Whether a line that is shown otherwise is still within the limit. */
bool lsi_console_admits(lsi_console *console, double now);

/* Shows what need not wait any longer. */
void lsi_console_pass(lsi_console *console, double now);

/* When lsi_console_pass has something to do; 0: nothing waits. */
double lsi_console_next(const lsi_console *console);

/* Shows all that waits. */
void lsi_console_finish(lsi_console *console, double now);

#endif

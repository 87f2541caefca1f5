/*
 * What a stream can show: a terminal whose line can be drawn again, or
 * something that gets plain lines (a file, a pipe, a dumb terminal).
 */
#ifndef LS_REPORT_TERMINAL_H
#define LS_REPORT_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

/*
 * Whether the stream is a terminal that clears the rest of a line when told to:
 * one that TERM names, and not as "dumb". False for NULL.
 */
bool lsi_terminal_redraws(FILE *stream);

/*
 * Columns of the terminal now: as it says itself, else COLUMNS, else 80. It is
 * asked each time, so that a window may change its size meanwhile.
 */
int lsi_terminal_width(FILE *stream);

#endif

/*
 * Progress of long work on a stream: a bar or a line that redraws itself on a
 * terminal, a plain line now and then elsewhere (a file, a pipe, a dumb
 * terminal).
 */
#ifndef LS_REPORT_PROGRESS_H
#define LS_REPORT_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/*
 * Whether the stream is a terminal that clears the rest of a line when told to:
 * one that TERM names, and not as "dumb". False for NULL.
 */
bool lsi_terminal_redraws(FILE *stream);

/* Whether bold and colours are welcome: it redraws, and NO_COLOR is not set. */
bool lsi_terminal_has_colour(FILE *stream);

/*
 * Columns of the terminal now: as it says itself, else COLUMNS, else 80. It is
 * asked each time, so that a window may change its size meanwhile.
 */
int lsi_terminal_width(FILE *stream);

enum { LSI_TIME_TEXT = 24 };

/* "1:05" or "2:00:10"; not finite or negative: "-:--". */
void lsi_time_text(char out[LSI_TIME_TEXT], double seconds);

/* ---- a live line --------------------------------------------------------- */

enum { LSI_LIVE_BAR = 27, LSI_LIVE_PART = 112 };

/*
 * One line at the bottom of a terminal that is drawn again and again. It never
 * fills the terminal's last column, so that it stays one line; what does not
 * fit is left out, the least important first.
 */
typedef struct lsi_live_line {
    FILE *stream; /* NULL: nothing is drawn */
    double drawn_at;
    int drawn; /* columns; 0: nothing is there */
} lsi_live_line;

/* A part of the line, in the order in which they stand. */
typedef struct lsi_live_part {
    char text[LSI_LIVE_PART]; /* empty: nothing of it */
    int rank;                 /* 0 is the most important */
} lsi_live_part;

/* On a stream that can be redrawn; any other shows nothing. */
lsi_live_line lsi_live_line_on(FILE *stream);

/* Whether it is time to draw again: at most ten times a second. */
bool lsi_live_line_is_due(const lsi_live_line *line);

void lsi_live_line_draw(lsi_live_line *line, const lsi_live_part *parts,
                        size_t n);

/* "[######..................]"; done and all are not negative. */
void lsi_live_bar(char out[LSI_LIVE_BAR], int64_t done, int64_t all);

/* Before something else is written; the next line stands where it was. */
void lsi_live_line_clear(lsi_live_line *line);

/* ---- a bar --------------------------------------------------------------- */

typedef struct lsi_progress_bar {
    FILE *stream; /* NULL: silent */
    lsi_live_line live;
    const char *label;
    int64_t total;
    int tenths; /* of the work that a log has been told about */
    double start, last_told;
} lsi_progress_bar;

/*
 * Begins a piece of work of `total` units on `stream` (usually stderr; NULL for
 * ranks that keep quiet). The label must outlive it.
 */
void lsi_progress_begin(lsi_progress_bar *progress, FILE *stream,
                        const char *label, int64_t total);

/*
 * `done` of the units are done; `note` (or NULL) is shown behind them. Cheap
 * enough for every step: draws ten times a second at most.
 */
void lsi_progress_update(lsi_progress_bar *progress, int64_t done,
                         const char *note);

/* Clears the bar, so that the next line stands where it was. */
void lsi_progress_end(lsi_progress_bar *progress);

#endif

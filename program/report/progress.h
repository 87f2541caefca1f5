/*
 * Progress of long work on a stream. A terminal shows a bar or a line that
 * redraws itself. Elsewhere (a file, a pipe, a dumb terminal) a plain line is
 * printed now and then.
 */
#ifndef LS_REPORT_PROGRESS_H
#define LS_REPORT_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/*
 * Whether the stream is a terminal that can clear the rest of a line: TERM is
 * set, and not "dumb". False for NULL.
 */
bool lsi_terminal_redraws(FILE *stream);

/*
 * Whether to use bold and colours: the terminal redraws, and NO_COLOR is not
 * set.
 */
bool lsi_terminal_has_colour(FILE *stream);

/*
 * Current columns of the terminal: its own size, else COLUMNS, else 80. Read on
 * each call, so that the window may be resized.
 */
int lsi_terminal_width(FILE *stream);

enum { LSI_TIME_TEXT = 24 };

/* "1:05" or "2:00:10"; not finite or negative: "-:--". */
void lsi_time_text(char out[LSI_TIME_TEXT], double seconds);

/* ---- a live line --------------------------------------------------------- */

enum { LSI_LIVE_BAR = 27, LSI_LIVE_PART = 112 };

/*
 * One line at the bottom of a terminal that is redrawn. It never fills the
 * terminal's last column, so that it stays one line. Parts that do not fit are
 * left out, the least important first.
 */
typedef struct lsi_live_line {
    FILE *stream; /* NULL: nothing is drawn */
    double drawn_at;
    int drawn; /* columns drawn; 0: none */
} lsi_live_line;

/* A part of the line; parts are shown in their order in the array. */
typedef struct lsi_live_part {
    char text[LSI_LIVE_PART]; /* empty: not shown */
    int rank;                 /* importance; 0 is the most important */
} lsi_live_part;

/*
 * A live line on a terminal that can redraw; shows nothing on any other stream.
 */
lsi_live_line lsi_live_line_on(FILE *stream);

/* Whether to draw again: at most ten times a second. */
bool lsi_live_line_is_due(const lsi_live_line *line);

void lsi_live_line_draw(lsi_live_line *line, const lsi_live_part *parts,
                        size_t n);

/* "[######..................]"; done and all are not negative. */
void lsi_live_bar(char out[LSI_LIVE_BAR], int64_t done, int64_t all);

/* Clears the line ahead of other output, which takes its place. */
void lsi_live_line_clear(lsi_live_line *line);

/* ---- a bar --------------------------------------------------------------- */

typedef struct lsi_progress_bar {
    FILE *stream; /* NULL: silent */
    lsi_live_line live;
    const char *label;
    int64_t total;
    int tenths; /* tenths of the work already written to a log */
    double start, last_told;
} lsi_progress_bar;

/*
 * Begins a piece of work of `total` units on `stream` (usually stderr; NULL for
 * quiet ranks). The label must outlive it.
 */
void lsi_progress_begin(lsi_progress_bar *progress, FILE *stream,
                        const char *label, int64_t total);

/*
 * `done` units are done; `note` (or NULL) is shown after them. Cheap enough for
 * every step: draws at most ten times a second.
 */
void lsi_progress_update(lsi_progress_bar *progress, int64_t done,
                         const char *note);

/* Clears the bar, so that the next line takes its place. */
void lsi_progress_end(lsi_progress_bar *progress);

#endif

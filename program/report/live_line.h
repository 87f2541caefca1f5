/*
 * One line at the bottom of a terminal that is drawn again and again. It never
 * fills the terminal's last column, so that it stays one line; what does not
 * fit is left out, the least important first.
 */
#ifndef LS_REPORT_LIVE_LINE_H
#define LS_REPORT_LIVE_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { LSI_LIVE_BAR = 27, LSI_LIVE_PART = 112 };

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

/* On a stream that can be redrawn (terminal.h); any other shows nothing. */
lsi_live_line lsi_live_line_on(FILE *stream);

/* Whether it is time to draw again: at most ten times a second. */
bool lsi_live_line_is_due(const lsi_live_line *line);

void lsi_live_line_draw(lsi_live_line *line, const lsi_live_part *parts,
                        size_t n);

/* "[######..................]"; done and all are not negative. */
void lsi_live_bar(char out[LSI_LIVE_BAR], int64_t done, int64_t all);

/* Before something else is written; the next line stands where it was. */
void lsi_live_line_clear(lsi_live_line *line);

#endif

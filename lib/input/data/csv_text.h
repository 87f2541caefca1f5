/*
 * Text of a table, cell by cell, as in RFC 4180. Rows end with a line feed.
 * Cells may be in quotes: there, a quote is written twice, and separators and
 * ends of lines are text. Empty lines are skipped. Also, whether the first row
 * names the columns.
 */
#ifndef LS_INPUT_DATA_CSV_TEXT_H
#define LS_INPUT_DATA_CSV_TEXT_H

#include <locale.h>
#include <stdbool.h>
#include <stdint.h>

#include "lockstep/data.h"

typedef struct lsi_csv_text {
    const char *path; /* for messages */
    locale_t c;       /* C locale: numbers have a decimal point */
    const char *at, *end;
    int64_t line; /* of `at`, from 1 */
    char separator;
} lsi_csv_text;

typedef struct lsi_csv_cell {
    const char *at, *end; /* without spaces and quotes around it */
    int64_t line;         /* where it begins */
    int64_t column;       /* from 0 */
    bool quoted;          /* a quote in it is written twice */
    bool last;            /* of its row */
} lsi_csv_cell;

/* Chooses ; or tab or comma by the first row of a text at its beginning. */
void lsi_csv_choose_separator(lsi_csv_text *text);

/* Moves to the next row; false at the end. */
bool lsi_csv_next_row(lsi_csv_text *text);

/*
 * The next cell of the row; before the first one, out->last must be true.
 * LS_ERR_FORMAT if a quote has no end, or more than spaces follow it.
 */
ls_status lsi_csv_next_cell(lsi_csv_text *text, lsi_csv_cell *out);

/* Whether a cell is a decimal number that a float can hold. */
bool lsi_csv_number(const lsi_csv_text *text, const lsi_csv_cell *cell,
                    double *out);

/* Whether a cell is this text. */
bool lsi_csv_is(const lsi_csv_cell *cell, const char *text);

/*
 * Whether the row at which `text` is, the first, names the columns. A row in
 * which a cell is `label` does (NULL: none). Warns where that is a guess.
 */
ls_status lsi_csv_has_names(const lsi_csv_text *text, const char *label,
                            bool *out);

#endif

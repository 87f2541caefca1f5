/* The table structure, shared by the table files. */
#ifndef LS_REPORT_TABLE_PRIVATE_H
#define LS_REPORT_TABLE_PRIVATE_H

#include <jansson.h>

#include "report/table.h"

enum { LSI_CELL_BYTES = 512 };

struct lsi_table {
    const lsi_column *columns;
    size_t n_columns;
    json_t *rows; /* array of flat objects with column names as keys */
    bool wide;
    bool few_runs; /* fewer than 100 values: a p99 is a maximum */
    ls_status status;
};

/* The value of a column in a row, or NULL if it is empty. */
const json_t *lsi_table_cell(const lsi_table *table, size_t row, size_t column);

/* Returns LS_ERR_IO with the message of errno. */
ls_status lsi_table_fail_stream(void);

/* ---- for people ---------------------------------------------------------- */

bool lsi_table_hides(const lsi_table *table, const lsi_column *column);
bool lsi_column_is_number(const lsi_column *column);

/* The title of a column, with its unit; the value of a row in it. */
void lsi_table_title_text(const lsi_table *table, size_t index,
                          char out[LSI_CELL_BYTES]);
void lsi_table_cell_text(const lsi_table *table, size_t row, size_t column,
                         char out[LSI_CELL_BYTES]);

/*
 * The part of a table to print: its titles, its rows from `first` on, or both.
 */
typedef struct lsi_table_piece {
    bool titles;
    size_t first; /* first row; LSI_NO_ROWS: titles only */
    bool whole;   /* all rows are known: columns are as wide as their cells */
} lsi_table_piece;

#define LSI_NO_ROWS SIZE_MAX

ls_status lsi_table_markdown(const lsi_table *table, lsi_table_piece piece,
                             FILE *stream);

/* For a terminal: each line fits its width. */
ls_status lsi_table_aligned(const lsi_table *table, lsi_table_piece piece,
                            FILE *stream);

#endif

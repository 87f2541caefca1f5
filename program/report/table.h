/*
 * A table of results: recorded once, then printed for people, as CSV or as
 * JSON.
 *
 *     static const lsi_column columns[] = {
 *         LSI_COLUMN(INT, "ranks"),
 *         LSI_COLUMN(REAL, "time_us.min", "min", .unit = "us"),
 *     };
 *     lsi_table_new(&table, columns, 2);
 *     lsi_table_row(table);
 *     lsi_table_int(table, "ranks", 4);
 *     lsi_table_real(table, "time_us.min", 12.5);
 *     lsi_table_print(table, stdout);
 *
 * Errors stick to the table: what records returns nothing, what prints returns
 * the first error.
 */
#ifndef LS_REPORT_TABLE_H
#define LS_REPORT_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "lockstep/status.h"
#include "report/stats.h"

typedef enum lsi_column_type {
    LSI_COLUMN_TEXT,
    LSI_COLUMN_INT,
    LSI_COLUMN_REAL,
    LSI_COLUMN_BOOL
} lsi_column_type;

typedef struct lsi_column {
    /*
     * Name in CSV, and in JSON, where "time_us.min" is "min" inside "time_us".
     */
    const char *name;
    /* Title for people: NULL stands for the name, "" hides the column. */
    const char *title;
    lsi_column_type type;
    const char *unit; /* unit, shown after the title; or NULL */
    int decimals;     /* decimals of a REAL, for people */
    bool wide;        /* shown to people only after lsi_table_show_wide */
    /*
     * Width of the contents in characters, for rows that are printed one by
     * one. A wider cell shifts the rest of its row.
     */
    int width;
} lsi_column;

/*
 * A column of a type, by its name, title, and other designated members:
 * LSI_COLUMN(REAL, "time_us.min", "min", .unit = "us", .decimals = 1).
 */
#define LSI_COLUMN(type_, ...)                                                 \
    {                                                                          \
        .type = LSI_COLUMN_##type_, .name = __VA_ARGS__                        \
    }

typedef struct lsi_table lsi_table;

/* An empty table. The columns must outlive it. *out is the caller's. */
ls_status lsi_table_new(lsi_table **out, const lsi_column *columns, size_t n);
#define LSI_TABLE_NEW(out, columns)                                            \
    lsi_table_new(out, columns, sizeof(columns) / sizeof((columns)[0]))
void lsi_table_free(lsi_table **table);

/* Begins the next row. Columns that are not set in it stay empty. */
void lsi_table_row(lsi_table *table);

/*
 * Sets one value of the current row. A real that is not finite is left empty.
 */
void lsi_table_text(lsi_table *table, const char *column, const char *value);
void lsi_table_int(lsi_table *table, const char *column, int64_t value);
void lsi_table_real(lsi_table *table, const char *column, double value);
void lsi_table_bool(lsi_table *table, const char *column, bool value);

/*
 * Sets the existing columns among <column>.min, .median, .mean, .p99, .max,
 * .std.
 */
void lsi_table_stats(lsi_table *table, const char *column,
                     const lsi_stats *stats, double factor);

size_t lsi_table_row_count(const lsi_table *table);

/* The value of an INT or REAL; false if the cell is empty or does not exist. */
bool lsi_table_number(const lsi_table *table, size_t row, const char *column,
                      double *out);

/* The first error of any function above, or LS_OK. */
ls_status lsi_table_status(const lsi_table *table);

/* Shows the wide columns to people, too. */
void lsi_table_show_wide(lsi_table *table);

/*
 * Sets the number of values that a row summarises. A p99 of fewer than a
 * hundred values is their maximum and has that title, except in CSV and JSON.
 */
void lsi_table_set_runs(lsi_table *table, int64_t runs);

/*
 * Prints aligned columns, numbers to the right. A terminal gets text within its
 * width, with titles in bold (lsi_terminal_has_colour); elsewhere the output is
 * Markdown.
 */
ls_status lsi_table_print(const lsi_table *table, FILE *stream);

/*
 * Prints in pieces, before all rows are known: the titles, and the rows from
 * `first` on. Columns are as wide as their titles and their declared widths.
 */
ls_status lsi_table_print_titles(const lsi_table *table, FILE *stream);
ls_status lsi_table_print_rows(const lsi_table *table, size_t first,
                               FILE *stream);

/* Applies to the whole process: tables are Markdown on terminals, too. */
void lsi_tables_use_markdown(bool always);

/*
 * A line of names, then one line for each row; quoted where needed (RFC 4180).
 */
ls_status lsi_table_csv(const lsi_table *table, FILE *stream);

/*
 * {"lockstep": version, "command": [..], "machine": {..}, "rows": [{..}]} as
 * text. *out is freed by the caller with free().
 */
ls_status lsi_table_json(const lsi_table *table, int argc,
                         const char *const *argv, char **out);

/* Writes the JSON to a file. */
ls_status lsi_table_json_write(const lsi_table *table, int argc,
                               const char *const *argv, const char *path);

/*
 * The rows alone as text for another process, and back. Both tables must have
 * the same columns. *out is freed by the caller with free().
 */
ls_status lsi_table_dump(const lsi_table *table, char **out);
void lsi_table_load(lsi_table *table, const char *text, size_t bytes);

#endif

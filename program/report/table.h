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
    /* In CSV, and in JSON, where "time_us.min" is "min" inside "time_us". */
    const char *name;
    /* For people: NULL stands for the name, "" hides the column. */
    const char *title;
    lsi_column_type type;
    const char *unit; /* shown after the title; or NULL */
    int decimals;     /* of a REAL, for people */
    bool wide;        /* shown to people by lsi_table_show_wide only */
    /*
     * Room for what is in it, in characters, where rows are printed one by one.
     * What is wider moves the rest of its row.
     */
    int width;
} lsi_column;

/*
 * A column of a type, by its name, its title, and the other members that it
 * sets: LSI_COLUMN(REAL, "time_us.min", "min", .unit = "us", .decimals = 1).
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

/* One value of the current row. A real that is not finite is left empty. */
void lsi_table_text(lsi_table *table, const char *column, const char *value);
void lsi_table_int(lsi_table *table, const char *column, int64_t value);
void lsi_table_real(lsi_table *table, const char *column, double value);
void lsi_table_bool(lsi_table *table, const char *column, bool value);

/* Sets those of <column>.min, .median, .mean, .p99, .max, .std there are. */
void lsi_table_stats(lsi_table *table, const char *column,
                     const lsi_stats *stats, double factor);

size_t lsi_table_row_count(const lsi_table *table);

/* The value of an INT or REAL; false if it is empty or there is no such cell.
 */
bool lsi_table_number(const lsi_table *table, size_t row, const char *column,
                      double *out);

/* The first error of anything above, or LS_OK. */
ls_status lsi_table_status(const lsi_table *table);

/* People see the wide columns, too. */
void lsi_table_show_wide(lsi_table *table);

/*
 * How many values a row sums up: a p99 of fewer than a hundred is their maximum
 * and is called so, except in CSV and JSON.
 */
void lsi_table_set_runs(lsi_table *table, int64_t runs);

/*
 * Aligned columns, numbers to the right: on a terminal as text that is at most
 * as wide, with titles in bold (lsi_terminal_has_colour); elsewhere as
 * Markdown.
 */
ls_status lsi_table_print(const lsi_table *table, FILE *stream);

/*
 * The same piece by piece, before all rows are there: the titles, and the rows
 * from `first` on. Columns are as wide as their titles and what they say.
 */
ls_status lsi_table_print_titles(const lsi_table *table, FILE *stream);
ls_status lsi_table_print_rows(const lsi_table *table, size_t first,
                               FILE *stream);

/* Of the process: tables are Markdown on terminals, too. */
void lsi_tables_use_markdown(bool always);

/* A line of names, then a line a row; quoted where needed (RFC 4180). */
ls_status lsi_table_csv(const lsi_table *table, FILE *stream);

/*
 * {"lockstep": version, "command": [..], "machine": {..}, "rows": [{..}]} as
 * text. *out is freed by the caller with free().
 */
ls_status lsi_table_json(const lsi_table *table, int argc,
                         const char *const *argv, char **out);

/* The same as a file. */
ls_status lsi_table_json_write(const lsi_table *table, int argc,
                               const char *const *argv, const char *path);

/*
 * The rows alone as text, to be handed to another process, and back. Columns
 * of both tables must be the same. *out is freed by the caller with free().
 */
ls_status lsi_table_dump(const lsi_table *table, char **out);
void lsi_table_load(lsi_table *table, const char *text, size_t bytes);

#endif

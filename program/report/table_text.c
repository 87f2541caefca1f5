/*
 * Tables for people (Markdown) and for spreadsheets (CSV).
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "report/table_private.h"

enum { CELL_BYTES = 512 };

static ls_status fail_stream(void)
{
    return lsi_fail_errno(LS_ERR_IO, "cannot write the table");
}

/* ---- Markdown --------------------------------------------------------- */

static bool is_hidden(const lsi_table *table, const lsi_column *column)
{
    return (column->title != NULL && column->title[0] == '\0') ||
           (column->wide && !table->wide);
}

static bool is_number(const lsi_column *column)
{
    return column->type == LSI_COLUMN_INT || column->type == LSI_COLUMN_REAL;
}

/* A bar would end the cell. */
static void copy_escaped(char out[CELL_BYTES], const char *text)
{
    size_t used = 0;
    for (; *text != '\0' && used + 3 < CELL_BYTES; text++) {
        if (*text == '|')
            out[used++] = '\\';
        out[used++] = *text == '\n' ? ' ' : *text;
    }
    out[used] = '\0';
}

static void format_cell(const lsi_column *column, const json_t *value,
                        char out[CELL_BYTES])
{
    out[0] = '\0';
    if (json_is_string(value))
        copy_escaped(out, json_string_value(value));
    else if (json_is_integer(value))
        snprintf(out, CELL_BYTES, "%" JSON_INTEGER_FORMAT,
                 json_integer_value(value));
    else if (json_is_real(value))
        snprintf(out, CELL_BYTES, "%.*f", column->decimals,
                 json_real_value(value));
    else if (json_is_boolean(value))
        snprintf(out, CELL_BYTES, "%s", json_is_true(value) ? "yes" : "no");
}

static bool is_p99(const lsi_column *column)
{
    const char *const dot = strrchr(column->name, '.');
    return dot != NULL && strcmp(dot, ".p99") == 0;
}

static void format_title(const lsi_table *table, const lsi_column *column,
                         char out[CELL_BYTES])
{
    const char *title = column->title ? column->title : column->name;
    if (table->few_runs && is_p99(column))
        title = "max";
    if (column->unit != NULL)
        snprintf(out, CELL_BYTES, "%s (%s)", title, column->unit);
    else
        snprintf(out, CELL_BYTES, "%s", title);
}

/* As its title and what the column says. */
static int least_width(const lsi_table *table, size_t column)
{
    enum { LEAST = 3 }; /* a rule has at least three dashes */
    char title[CELL_BYTES];
    format_title(table, &table->columns[column], title);
    const int width = (int)strlen(title) > LEAST ? (int)strlen(title) : LEAST;
    const int wished = table->columns[column].width;
    return wished > width ? wished : width;
}

/* As the widest thing in it. */
static int full_width(const lsi_table *table, size_t column)
{
    char cell[CELL_BYTES];
    int width = least_width(table, column);
    for (size_t row = 0; row < lsi_table_row_count(table); row++) {
        format_cell(&table->columns[column], lsi_table_cell(table, row, column),
                    cell);
        if ((int)strlen(cell) > width)
            width = (int)strlen(cell);
    }
    return width;
}

static void print_cell(FILE *stream, const lsi_column *column, int width,
                       const char *cell)
{
    if (is_number(column))
        fprintf(stream, " %*s |", width, cell);
    else
        fprintf(stream, " %-*s |", width, cell);
}

static void print_rule(FILE *stream, const lsi_column *column, int width)
{
    fputc(' ', stream);
    for (int i = 0; i < width - (is_number(column) ? 1 : 0); i++)
        fputc('-', stream);
    fputs(is_number(column) ? ": |" : " |", stream);
}

/* How wide a column is to be. */
typedef int (*width_fn)(const lsi_table *table, size_t column);

/* Lines 0 and 1 are the titles and the rule, then come the rows. */
enum { TITLES = 2 };

static void print_line(const lsi_table *table, FILE *stream, const int *widths,
                       size_t line)
{
    char cell[CELL_BYTES];
    fputc('|', stream);
    for (size_t i = 0; i < table->n_columns; i++) {
        const lsi_column *column = &table->columns[i];
        if (is_hidden(table, column))
            continue;
        if (line == 1) {
            print_rule(stream, column, widths[i]);
            continue;
        }
        if (line == 0)
            format_title(table, column, cell);
        else
            format_cell(column, lsi_table_cell(table, line - TITLES, i), cell);
        print_cell(stream, column, widths[i], cell);
    }
    fputc('\n', stream);
}

static ls_status print_lines(const lsi_table *table, FILE *stream,
                             width_fn width, size_t first, size_t end)
{
    LS_TRY(table->status);
    void *block;
    LS_TRY(lsi_alloc(&block, table->n_columns * sizeof(int), LS_MEMORY_OTHER,
                     "column widths"));
    int *widths = block;
    for (size_t i = 0; i < table->n_columns; i++)
        widths[i] = width(table, i);
    for (size_t line = first; line < end; line++)
        print_line(table, stream, widths, line);
    lsi_free(block);
    return fflush(stream) == 0 ? LS_OK : fail_stream();
}

ls_status lsi_table_markdown(const lsi_table *table, FILE *stream)
{
    return print_lines(table, stream, full_width, 0,
                       TITLES + lsi_table_row_count(table));
}

ls_status lsi_table_markdown_titles(const lsi_table *table, FILE *stream)
{
    return print_lines(table, stream, least_width, 0, TITLES);
}

ls_status lsi_table_markdown_rows(const lsi_table *table, size_t first,
                                  FILE *stream)
{
    return print_lines(table, stream, least_width, TITLES + first,
                       TITLES + lsi_table_row_count(table));
}

/* ---- CSV -------------------------------------------------------------- */

static void print_quoted(FILE *stream, const char *text)
{
    if (strpbrk(text, ",\"\r\n") == NULL) {
        fputs(text, stream);
        return;
    }
    fputc('"', stream);
    for (; *text != '\0'; text++) {
        if (*text == '"')
            fputc('"', stream);
        fputc(*text, stream);
    }
    fputc('"', stream);
}

static void print_value(FILE *stream, const json_t *value)
{
    if (json_is_string(value))
        print_quoted(stream, json_string_value(value));
    else if (json_is_integer(value))
        fprintf(stream, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value))
        fprintf(stream, "%.15g", json_real_value(value));
    else if (json_is_boolean(value))
        fputs(json_is_true(value) ? "true" : "false", stream);
}

ls_status lsi_table_csv(const lsi_table *table, FILE *stream)
{
    LS_TRY(table->status);
    for (size_t i = 0; i < table->n_columns; i++) {
        fputs(i == 0 ? "" : ",", stream);
        print_quoted(stream, table->columns[i].name);
    }
    fputc('\n', stream);
    for (size_t row = 0; row < lsi_table_row_count(table); row++) {
        for (size_t i = 0; i < table->n_columns; i++) {
            fputs(i == 0 ? "" : ",", stream);
            print_value(stream, lsi_table_cell(table, row, i));
        }
        fputc('\n', stream);
    }
    return fflush(stream) == 0 ? LS_OK : fail_stream();
}

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

static bool is_hidden(const lsi_column *column)
{
    return column->title != NULL && column->title[0] == '\0';
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

static void format_title(const lsi_column *column, char out[CELL_BYTES])
{
    const char *title = column->title ? column->title : column->name;
    if (column->unit != NULL)
        snprintf(out, CELL_BYTES, "%s (%s)", title, column->unit);
    else
        snprintf(out, CELL_BYTES, "%s", title);
}

/* Columns are as wide as the widest thing in them. */
static int width_of(const lsi_table *table, size_t column)
{
    enum { LEAST = 3 }; /* a rule has at least three dashes */
    char cell[CELL_BYTES];
    format_title(&table->columns[column], cell);
    size_t width = strlen(cell) > LEAST ? strlen(cell) : LEAST;
    for (size_t row = 0; row < lsi_table_row_count(table); row++) {
        format_cell(&table->columns[column], lsi_table_cell(table, row, column),
                    cell);
        width = strlen(cell) > width ? strlen(cell) : width;
    }
    return (int)width;
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

/* Lines 0 and 1 are the titles and the rule, then come the rows. */
static void print_line(const lsi_table *table, FILE *stream, const int *widths,
                       size_t line)
{
    char cell[CELL_BYTES];
    fputc('|', stream);
    for (size_t i = 0; i < table->n_columns; i++) {
        const lsi_column *column = &table->columns[i];
        if (is_hidden(column))
            continue;
        if (line == 1) {
            print_rule(stream, column, widths[i]);
            continue;
        }
        if (line == 0)
            format_title(column, cell);
        else
            format_cell(column, lsi_table_cell(table, line - 2, i), cell);
        print_cell(stream, column, widths[i], cell);
    }
    fputc('\n', stream);
}

ls_status lsi_table_markdown(const lsi_table *table, FILE *stream)
{
    LS_TRY(table->status);
    void *block;
    LS_TRY(lsi_alloc(&block, table->n_columns * sizeof(int), LS_MEMORY_OTHER,
                     "column widths"));
    int *widths = block;
    for (size_t i = 0; i < table->n_columns; i++)
        widths[i] = width_of(table, i);
    for (size_t line = 0; line < lsi_table_row_count(table) + 2; line++)
        print_line(table, stream, widths, line);
    lsi_free(block);
    return fflush(stream) == 0 ? LS_OK : fail_stream();
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

/*
 * Tables for people: the texts of titles and cells, and the choice of a form.
 */
#include <string.h>
#include <unistd.h>

#include "base/printable.h"
#include "report/table_private.h"

bool lsi_table_hides(const lsi_table *table, const lsi_column *column)
{
    return (column->title != NULL && column->title[0] == '\0') ||
           (column->wide && !table->wide);
}

bool lsi_column_is_number(const lsi_column *column)
{
    return column->type == LSI_COLUMN_INT || column->type == LSI_COLUMN_REAL;
}

/* ---- texts -------------------------------------------------------------- */

static bool is_p99(const lsi_column *column)
{
    const char *const dot = strrchr(column->name, '.');
    return dot != NULL && strcmp(dot, ".p99") == 0;
}

void lsi_table_title_text(const lsi_table *table, size_t index,
                          char out[LSI_CELL_BYTES])
{
    const lsi_column *const column = &table->columns[index];
    const char *title = column->title ? column->title : column->name;
    if (table->few_runs && is_p99(column))
        title = "max";
    if (column->unit != NULL)
        snprintf(out, LSI_CELL_BYTES, "%s (%s)", title, column->unit);
    else
        snprintf(out, LSI_CELL_BYTES, "%s", title);
}

/* Copies a text onto one line. */
static void copy_line(char out[LSI_CELL_BYTES], const char *text)
{
    char line[LSI_CELL_BYTES];
    snprintf(line, sizeof(line), "%s", text);
    for (char *at = line; (at = strchr(at, '\n')) != NULL;)
        *at = ' ';
    lsi_printable(out, LSI_CELL_BYTES, line);
}

void lsi_table_cell_text(const lsi_table *table, size_t row, size_t column,
                         char out[LSI_CELL_BYTES])
{
    const json_t *const value = lsi_table_cell(table, row, column);
    out[0] = '\0';
    if (json_is_string(value))
        copy_line(out, json_string_value(value));
    else if (json_is_integer(value))
        snprintf(out, LSI_CELL_BYTES, "%" JSON_INTEGER_FORMAT,
                 json_integer_value(value));
    else if (json_is_real(value))
        snprintf(out, LSI_CELL_BYTES, "%.*f", table->columns[column].decimals,
                 json_real_value(value));
    else if (json_is_boolean(value))
        snprintf(out, LSI_CELL_BYTES, "%s", json_is_true(value) ? "yes" : "no");
}

/* ---- printing ----------------------------------------------------------- */

static bool wants_markdown;

void lsi_tables_use_markdown(bool always)
{
    wants_markdown = always;
}

static ls_status print(const lsi_table *table, lsi_table_piece piece,
                       FILE *stream)
{
    const bool is_text = !wants_markdown && isatty(fileno(stream));
    return is_text ? lsi_table_aligned(table, piece, stream)
                   : lsi_table_markdown(table, piece, stream);
}

ls_status lsi_table_print(const lsi_table *table, FILE *stream)
{
    return print(table, (lsi_table_piece){.titles = true, .whole = true},
                 stream);
}

ls_status lsi_table_print_titles(const lsi_table *table, FILE *stream)
{
    return print(table, (lsi_table_piece){.titles = true, .first = LSI_NO_ROWS},
                 stream);
}

ls_status lsi_table_print_rows(const lsi_table *table, size_t first,
                               FILE *stream)
{
    return print(table, (lsi_table_piece){.first = first}, stream);
}

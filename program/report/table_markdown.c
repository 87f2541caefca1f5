/* Tables as Markdown. */
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "report/columns.h"
#include "report/table_private.h"

/* A cell with escapes; a bar would end it. */
enum { ESCAPED_BYTES = 2 * LSI_CELL_BYTES };

static void escape(char out[ESCAPED_BYTES], const char *text)
{
    size_t used = 0;
    for (; *text != '\0'; text++) {
        if (*text == '|')
            out[used++] = '\\';
        out[used++] = *text;
    }
    out[used] = '\0';
}

static void format_cell(const lsi_table *table, size_t row, size_t column,
                        char out[ESCAPED_BYTES])
{
    char text[LSI_CELL_BYTES];
    lsi_table_cell_text(table, row, column, text);
    escape(out, text);
}

/* ---- widths ------------------------------------------------------------- */

/* Width of the title or of the column's declaration. */
static int least_width(const lsi_table *table, size_t column)
{
    enum { LEAST = 3 }; /* a rule has at least three dashes */
    char title[LSI_CELL_BYTES];
    lsi_table_title_text(table, column, title);
    const int width = (int)strlen(title) > LEAST ? (int)strlen(title) : LEAST;
    const int wished = table->columns[column].width;
    return wished > width ? wished : width;
}

/* Width of the longest cell or title. */
static int full_width(const lsi_table *table, size_t column)
{
    char cell[ESCAPED_BYTES];
    int width = least_width(table, column);
    for (size_t row = 0; row < lsi_table_row_count(table); row++) {
        format_cell(table, row, column, cell);
        const int columns = lsi_columns_of_text(cell, strlen(cell));
        width = columns > width ? columns : width;
    }
    return width;
}

/* ---- lines -------------------------------------------------------------- */

static void print_cell(FILE *stream, const lsi_column *column, int width,
                       const char *cell)
{
    const int columns = lsi_columns_of_text(cell, strlen(cell));
    const int blanks = width > columns ? width - columns : 0;
    if (lsi_column_is_number(column))
        fprintf(stream, " %*s%s |", blanks, "", cell);
    else
        fprintf(stream, " %s%*s |", cell, blanks, "");
}

static void print_rule(FILE *stream, const lsi_column *column, int width)
{
    const bool number = lsi_column_is_number(column);
    fputc(' ', stream);
    for (int i = 0; i < width - (number ? 1 : 0); i++)
        fputc('-', stream);
    fputs(number ? ": |" : " |", stream);
}

static void print_titles(const lsi_table *table, FILE *stream,
                         const int *widths)
{
    char title[LSI_CELL_BYTES];
    for (int rule = 0; rule < 2; rule++) {
        fputc('|', stream);
        for (size_t i = 0; i < table->n_columns; i++) {
            const lsi_column *const column = &table->columns[i];
            if (lsi_table_hides(table, column))
                continue;
            lsi_table_title_text(table, i, title);
            if (rule)
                print_rule(stream, column, widths[i]);
            else
                print_cell(stream, column, widths[i], title);
        }
        fputc('\n', stream);
    }
}

static void print_row(const lsi_table *table, FILE *stream, const int *widths,
                      size_t row)
{
    char cell[ESCAPED_BYTES];
    fputc('|', stream);
    for (size_t i = 0; i < table->n_columns; i++) {
        if (lsi_table_hides(table, &table->columns[i]))
            continue;
        format_cell(table, row, i, cell);
        print_cell(stream, &table->columns[i], widths[i], cell);
    }
    fputc('\n', stream);
}

ls_status lsi_table_markdown(const lsi_table *table, lsi_table_piece piece,
                             FILE *stream)
{
    LS_TRY(table->status);
    void *block;
    LS_TRY(lsi_alloc(&block, table->n_columns * sizeof(int), LS_MEMORY_OTHER,
                     "column widths"));
    int *const widths = block;
    for (size_t i = 0; i < table->n_columns; i++)
        widths[i] = piece.whole ? full_width(table, i) : least_width(table, i);
    if (piece.titles)
        print_titles(table, stream, widths);
    for (size_t row = piece.first; row < lsi_table_row_count(table); row++)
        print_row(table, stream, widths, row);
    lsi_free(block);
    return fflush(stream) == 0 ? LS_OK : lsi_table_fail_stream();
}

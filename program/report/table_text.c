/*
 * Tables as aligned text that fits the width of a terminal. Titles are broken
 * first, then long texts. Columns that still do not fit continue on another
 * line of the same row.
 */
#include <limits.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "report/columns.h"
#include "report/progress.h"
#include "report/table_private.h"

enum { GAP = 2, INDENT = 2, LEAST_TEXT = 6, LONG_WORD = 30, LEAST_ROOM = 20 };

/* A column of the text. */
typedef struct place {
    size_t column;
    int width;
    int title_word; /* the longest word of its title */
    int least;      /* least width, if the text is broken */
    int full;       /* width of the unbroken text */
    bool begins;    /* begins a line of the terminal */
    bool breaks; /* may break at blanks: titles and texts do, numbers do not */
    const char *rest;
    char text[LSI_CELL_BYTES];
} place;

typedef struct layout {
    const lsi_table *table;
    FILE *stream;
    int room; /* columns of the terminal */
    int gap;  /* columns between two columns of the table */
    size_t n;
    place *places;
} layout;

/* ---- widths ------------------------------------------------------------- */

static int larger(int a, int b)
{
    return a > b ? a : b;
}

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

static int columns_of(const char *text)
{
    return lsi_columns_of_text(text, strlen(text));
}

static int longest_word(const char *text)
{
    int longest = 0;
    while (*text != '\0') {
        const size_t length = strcspn(text, " ");
        longest = larger(longest, lsi_columns_of_text(text, length));
        text += length;
        text += strspn(text, " ");
    }
    return longest;
}

/* Width of a column's cells; `whole`: of all rows. */
static int cells_width(const lsi_table *table, size_t column, bool whole)
{
    char cell[LSI_CELL_BYTES];
    int width = whole ? 1 : larger(1, table->columns[column].width);
    for (size_t i = 0; whole && i < lsi_table_row_count(table); i++) {
        lsi_table_cell_text(table, i, column, cell);
        width = larger(width, columns_of(cell));
    }
    return width;
}

/* The least width that keeps words whole, except very long ones. */
static int least_width(const lsi_table *table, size_t column, bool whole)
{
    char cell[LSI_CELL_BYTES];
    int width = LEAST_TEXT;
    for (size_t i = 0; whole && i < lsi_table_row_count(table); i++) {
        lsi_table_cell_text(table, i, column, cell);
        width = larger(width, longest_word(cell));
    }
    return smaller(width, LONG_WORD);
}

static int all_columns(const layout *l)
{
    int width = 0;
    for (size_t i = 0; i < l->n; i++)
        width += l->places[i].width + (i > 0 ? l->gap : 0);
    return width;
}

/* Measures all columns; `whole`: with unbroken titles. */
static void measure(layout *l, bool whole)
{
    const lsi_table *const table = l->table;
    for (size_t i = 0; i < table->n_columns; i++) {
        if (lsi_table_hides(table, &table->columns[i]))
            continue;
        place *const p = &l->places[l->n++];
        p->column = i;
        lsi_table_title_text(table, i, p->text);
        p->title_word = longest_word(p->text);
        p->least = larger(p->title_word, least_width(table, i, whole));
        p->width = larger(columns_of(p->text), cells_width(table, i, whole));
    }
}

static void break_titles(layout *l, bool whole)
{
    if (all_columns(l) <= l->room)
        return;
    for (size_t i = 0; i < l->n; i++)
        l->places[i].width =
            larger(l->places[i].title_word,
                   cells_width(l->table, l->places[i].column, whole));
}

static bool is_text(const layout *l, const place *p)
{
    return !lsi_column_is_number(&l->table->columns[p->column]);
}

static bool fits(const layout *l)
{
    return all_columns(l) <= l->room;
}

static void narrow(const layout *l, place *p)
{
    while (p->width > p->least && !fits(l))
        p->width--;
}

/* Breaks the last text, usually the least important, then all of them. */
static void break_texts(layout *l)
{
    place *last = NULL;
    for (size_t i = 0; i < l->n; i++) {
        l->places[i].full = l->places[i].width;
        last = is_text(l, &l->places[i]) ? &l->places[i] : last;
    }
    if (last != NULL)
        narrow(l, last);
    l->gap = fits(l) ? GAP : 1;
    for (size_t i = l->n; i-- > 0;)
        if (is_text(l, &l->places[i]))
            narrow(l, &l->places[i]);
}

/* Restores the width of texts that were broken in vain. */
static void widen_texts(layout *l)
{
    l->gap = GAP;
    for (size_t i = 0; i < l->n; i++)
        if (is_text(l, &l->places[i]))
            l->places[i].width = smaller(l->places[i].full, l->room - INDENT);
}

static void break_rows(layout *l)
{
    int used = 0;
    if (!fits(l))
        widen_texts(l);
    for (size_t i = 0; i < l->n; i++) {
        place *const p = &l->places[i];
        p->begins = i == 0 || used + l->gap + p->width > l->room;
        used = p->begins ? p->width + (i > 0 ? INDENT : 0)
                         : used + l->gap + p->width;
    }
}

/* ---- lines -------------------------------------------------------------- */

/* Bytes of a text that fit on the next line. */
static size_t piece_length(const char *text, int width)
{
    const size_t fitting = lsi_columns_fitting(text, width);
    size_t length = fitting;
    if (text[length] == '\0')
        return length;
    while (length > 0 && text[length] != ' ')
        length--;
    return length > 0 ? length : fitting;
}

/*
 * Goes to a column, at least a blank after the current text; *at: the position.
 */
static void go_to(FILE *stream, int *at, int column)
{
    const int blanks = larger(column - *at, *at > 0 ? 1 : 0);
    fprintf(stream, "%*s", blanks, "");
    *at += blanks;
}

/*
 * Prints a line of the columns from `first` to `end`; whether texts continue.
 */
static bool print_line(const layout *l, size_t first, size_t end)
{
    bool more = false;
    int at = 0, begin = first > 0 ? INDENT : 0;
    for (size_t i = first; i < end; i++) {
        place *const p = &l->places[i];
        const int width = p->breaks ? p->width : INT_MAX;
        const size_t length = piece_length(p->rest, width);
        const int columns = lsi_columns_of_text(p->rest, length);
        if (length > 0) {
            go_to(l->stream, &at,
                  is_text(l, p) ? begin : begin + p->width - columns);
            fprintf(l->stream, "%.*s", (int)length, p->rest);
            at += columns;
        }
        p->rest += length;
        p->rest += strspn(p->rest, " ");
        more |= *p->rest != '\0';
        begin += p->width + l->gap;
    }
    fputc('\n', l->stream);
    return more;
}

static bool is_empty(const layout *l, size_t first, size_t end)
{
    for (size_t i = first; i < end; i++)
        if (l->places[i].text[0] != '\0')
            return false;
    return true;
}

/* Prints the texts of all places. */
static void print_texts(const layout *l)
{
    for (size_t i = 0; i < l->n; i++)
        l->places[i].rest = l->places[i].text;
    for (size_t first = 0, end; first < l->n; first = end) {
        for (end = first + 1; end < l->n && !l->places[end].begins;)
            end++;
        if (first > 0 && is_empty(l, first, end))
            continue;
        while (print_line(l, first, end))
            continue;
    }
}

static void print_titles(const layout *l)
{
    const bool bold = lsi_terminal_has_colour(l->stream);
    for (size_t i = 0; i < l->n; i++) {
        lsi_table_title_text(l->table, l->places[i].column, l->places[i].text);
        l->places[i].breaks = true;
    }
    fputs(bold ? "\033[1m" : "", l->stream);
    print_texts(l);
    fputs(bold ? "\033[0m" : "", l->stream);
}

static void print_rows(const layout *l, size_t first)
{
    for (size_t row = first; row < lsi_table_row_count(l->table); row++) {
        for (size_t i = 0; i < l->n; i++) {
            place *const p = &l->places[i];
            lsi_table_cell_text(l->table, row, p->column, p->text);
            p->breaks = is_text(l, p);
        }
        print_texts(l);
    }
}

ls_status lsi_table_aligned(const lsi_table *table, lsi_table_piece piece,
                            FILE *stream)
{
    LS_TRY(table->status);
    void *block;
    LS_TRY(lsi_alloc(&block, table->n_columns * sizeof(place), LS_MEMORY_OTHER,
                     "columns of a table"));
    layout l = {.table = table,
                .stream = stream,
                .gap = GAP,
                .room = larger(lsi_terminal_width(stream), LEAST_ROOM),
                .places = block};
    measure(&l, piece.whole);
    break_titles(&l, piece.whole);
    break_texts(&l);
    break_rows(&l);
    if (piece.titles)
        print_titles(&l);
    print_rows(&l, piece.first);
    lsi_free(block);
    return fflush(stream) == 0 ? LS_OK : lsi_table_fail_stream();
}

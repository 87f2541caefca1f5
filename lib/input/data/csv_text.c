#include "input/data/csv_text.h"

#include <float.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/log.h"

enum { CELL_BYTES = 64, SHOWN = 40 };

/* ---- rows and cells ------------------------------------------------------ */

/* Separators in quotes do not count. */
void lsi_csv_choose_separator(lsi_csv_text *text)
{
    lsi_csv_text t = *text;
    bool quoted = false;
    text->separator = ',';
    if (!lsi_csv_next_row(&t))
        return;
    for (const char *p = t.at; p < t.end && (quoted || *p != '\n'); p++) {
        quoted ^= *p == '"';
        if (!quoted && (*p == ';' || (*p == '\t' && text->separator == ',')))
            text->separator = *p;
    }
}

static const char *skip_spaces(const lsi_csv_text *t, const char *at)
{
    while (at < t->end && *at == ' ')
        at++;
    return at;
}

/* Whether a line ends here, and where the next begins. */
static bool ends_line(const lsi_csv_text *t, const char *at, const char **next)
{
    if (at + 1 < t->end && at[0] == '\r' && at[1] == '\n')
        at++;
    *next = at < t->end && *at == '\n' ? at + 1 : at;
    return at == t->end || *at == '\n' || (*at == '\r' && at + 1 == t->end);
}

bool lsi_csv_next_row(lsi_csv_text *t)
{
    const char *next;
    while (t->at < t->end && ends_line(t, t->at, &next)) {
        if (next == t->at)
            return false;
        t->at = next;
        t->line++;
    }
    return t->at < t->end;
}

static ls_status bad_quotes(const lsi_csv_text *t, const lsi_csv_cell *cell,
                            const char *what)
{
    return lsi_fail(LS_ERR_FORMAT,
                    "'%s', line %" PRId64 ", column %" PRId64 ": %s", t->path,
                    cell->line, cell->column + 1, what);
}

/* From the quote on; a quote in the text is written twice. */
static ls_status read_quoted(lsi_csv_text *t, lsi_csv_cell *cell)
{
    const char *p = t->at + 1;
    cell->quoted = true;
    cell->at = p;
    for (; p < t->end && (*p != '"' || (p + 1 < t->end && p[1] == '"')); p++) {
        p += *p == '"';
        t->line += *p == '\n';
    }
    if (p == t->end)
        return bad_quotes(t, cell, "the closing quote of the cell is missing");
    cell->end = p;
    t->at = skip_spaces(t, p + 1);
    return LS_OK;
}

static void read_plain(lsi_csv_text *t, lsi_csv_cell *cell)
{
    const char *p = t->at, *next;
    while (p < t->end && *p != t->separator && !ends_line(t, p, &next))
        p++;
    cell->at = t->at;
    cell->end = t->at = p;
    while (cell->end > cell->at && cell->end[-1] == ' ')
        cell->end--;
}

ls_status lsi_csv_next_cell(lsi_csv_text *t, lsi_csv_cell *out)
{
    const char *next;
    t->at = skip_spaces(t, t->at);
    *out = (lsi_csv_cell){.line = t->line,
                          .column = out->last ? 0 : out->column + 1};
    if (t->at < t->end && *t->at == '"')
        LS_TRY(read_quoted(t, out));
    else
        read_plain(t, out);
    out->last = ends_line(t, t->at, &next);
    if (!out->last && *t->at != t->separator)
        return bad_quotes(
            t, out,
            "the closing quote must be followed by a separator or the end of "
            "the line; write a quote inside a cell as two quotes");
    t->line += out->last && next > t->at;
    t->at = out->last ? next : t->at + 1;
    return LS_OK;
}

bool lsi_csv_is(const lsi_csv_cell *cell, const char *text)
{
    const char *p = cell->at;
    for (; p < cell->end && *text != '\0' && *p == *text; p++, text++)
        p += cell->quoted && *p == '"'; /* the first of two */
    return p == cell->end && *text == '\0';
}

/* ---- numbers ------------------------------------------------------------- */

/* Copies a cell without spaces around it; false if it is empty or long. */
static bool copy_cell(const lsi_csv_cell *cell, char out[CELL_BYTES])
{
    const char *at = cell->at, *end = cell->end;
    while (at < end && *at == ' ')
        at++;
    while (at < end && end[-1] == ' ')
        end--;
    const size_t n = (size_t)(end - at);
    if (n == 0 || n >= CELL_BYTES)
        return false;
    memcpy(out, at, n);
    out[n] = '\0';
    return true;
}

/* NaN, infinities and numbers in other bases end after them, too. */
static bool parse(const lsi_csv_text *t, const char *text, double *out)
{
    char *end;
    *out = strtod_l(text, &end, t->c);
    return *end == '\0';
}

static bool is_decimal(const char *text)
{
    return text[strspn(text, "+-.0123456789eE")] == '\0';
}

bool lsi_csv_number(const lsi_csv_text *t, const lsi_csv_cell *cell,
                    double *out)
{
    char text[CELL_BYTES];
    return copy_cell(cell, text) && is_decimal(text) && parse(t, text, out) &&
           fabs(*out) <= FLT_MAX;
}

/* ---- the first row ------------------------------------------------------- */

typedef enum kind {
    EMPTY,
    WHOLE,    /* digits alone: a number, or a year, or the number of a column */
    MEASURED, /* a number with a sign, a point or an exponent */
    MISSING,  /* stands for a number: nan, NA, 1e99, 0x10 */
    NAME,     /* begins with a letter */
    UNCLEAR,  /* 1st, 2020-01-31, 1 2 */
    N_KINDS
} kind;

static const char *const kind_names[N_KINDS] = {
    [EMPTY] = "empty",       [WHOLE] = "a number",
    [MEASURED] = "a number", [MISSING] = "neither a number nor clearly a name",
    [NAME] = "a name",       [UNCLEAR] = "neither a number nor clearly a name"};

static bool is_missing(const lsi_csv_text *t, const char *text)
{
    static const char *const usual[] = {"na", "n/a", "null", "none", "missing"};
    double value;
    for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++) {
        if (strcasecmp(text, usual[i]) == 0)
            return true;
    }
    return parse(t, text, &value);
}

static kind kind_of(const lsi_csv_text *t, const lsi_csv_cell *cell)
{
    char text[CELL_BYTES];
    double value;
    if (!copy_cell(cell, text))
        return cell->end - cell->at < CELL_BYTES ? EMPTY : NAME;
    if (lsi_csv_number(t, cell, &value))
        return text[strspn(text, "0123456789")] == '\0' ? WHOLE : MEASURED;
    if (is_missing(t, text))
        return MISSING;
    const unsigned char first = (unsigned char)text[0] | 0x20;
    return (first >= 'a' && first <= 'z') || text[0] == '_' || first >= 0x80
               ? NAME
               : UNCLEAR;
}

typedef struct row_kinds {
    int64_t cells, of[N_KINDS], quoted; /* numbers of cells */
    bool has_label;                     /* a cell is the label's name */
    bool counts;      /* 0, 1, 2, ..., which an empty cell may precede */
    double continues; /* the first cell, if it is whole; else -1 */
    kind odd;         /* of the first cell that is not a name */
    lsi_csv_cell odd_cell;
} row_kinds;

static ls_status classify_row(lsi_csv_text *t, const char *label, row_kinds *r)
{
    lsi_csv_cell cell = {.last = true};
    *r = (row_kinds){.counts = true, .odd = NAME, .continues = -1};
    do {
        double value = -1;
        LS_TRY(lsi_csv_next_cell(t, &cell));
        const kind k = kind_of(t, &cell);
        const int64_t before = r->of[EMPTY];
        (void)lsi_csv_number(t, &cell, &value);
        if (k == WHOLE && r->cells == 0)
            r->continues = value;
        if (k != EMPTY || r->cells > 0)
            r->counts &= k == WHOLE && value == (double)(r->cells - before);
        if (k != NAME && k != EMPTY && r->odd == NAME) {
            r->odd = k;
            r->odd_cell = cell;
        }
        r->has_label |= label != NULL && lsi_csv_is(&cell, label);
        r->quoted += cell.quoted;
        r->of[k]++;
        r->cells++;
    } while (!cell.last);
    return LS_OK;
}

/*
 * Whether the first row is 0, 1, ..., the names that pandas writes for columns
 * without names. 0, 1, 2 above 3, 4, 5 goes on counting, so both rows are data.
 * 0, 1 above whole numbers may be data, too.
 */
static bool numbers_columns(const row_kinds *first, const row_kinds *second)
{
    const int64_t n = first->of[WHOLE];
    if (!first->counts || n < 2)
        return false;
    return first->of[EMPTY] > 0 || second->of[MEASURED] > 0 ||
           (n > 2 && second->continues != (double)n);
}

static bool names_columns(const row_kinds *first, const row_kinds *second)
{
    const int64_t numbers =
        first->of[WHOLE] + first->of[MEASURED] + first->of[MISSING];
    if (first->has_label)
        return true;
    if (first->of[NAME] > 0)
        return first->of[MEASURED] == 0;
    if (numbers == 0)
        return first->of[UNCLEAR] > 0;
    if (first->of[UNCLEAR] + first->of[MISSING] > 0 || second->cells == 0)
        return false;
    /* "2019", "2020" above numbers without quotes */
    if (first->quoted == first->cells && second->quoted < second->cells)
        return true;
    return numbers_columns(first, second);
}

/*
 * Whether to warn. A first row of numbers is data without a warning, unless it
 * counts its columns. A row of data with other cells fails later anyway.
 */
static bool is_a_guess(const row_kinds *first, bool names)
{
    if (first->has_label)
        return false;
    if (names)
        return first->odd != NAME;
    return first->counts && first->of[WHOLE] > 1;
}

static void warn(const lsi_csv_text *t, const row_kinds *r, bool names)
{
    if (!names) {
        lsi_log(LS_LOG_WARN,
                "'%s': the first row (0, 1, ...) is read as data. If this row "
                "numbers the columns, set header to LS_CSV_HEADER in "
                "ls_csv_options",
                t->path);
        return;
    }
    const lsi_csv_cell *const c = &r->odd_cell;
    const int64_t n = c->end - c->at < SHOWN ? c->end - c->at : SHOWN;
    lsi_log(
        LS_LOG_WARN,
        "'%s': the first row is read as column names, although column %" PRId64
        ", '%.*s', is %s. If the row is data, set header to LS_CSV_NO_HEADER "
        "in ls_csv_options",
        t->path, c->column + 1, (int)n, c->at, kind_names[r->odd]);
}

ls_status lsi_csv_has_names(const lsi_csv_text *text, const char *label,
                            bool *out)
{
    lsi_csv_text t = *text;
    row_kinds first, second = {0};
    LS_TRY(classify_row(&t, label, &first));
    if (lsi_csv_next_row(&t))
        LS_TRY(classify_row(&t, NULL, &second));
    *out = names_columns(&first, &second);
    if (is_a_guess(&first, *out))
        warn(text, &first, *out);
    return LS_OK;
}

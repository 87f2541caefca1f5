/*
 * Tables of numbers in text: a row a line, columns between commas, semicolons
 * or tabs, with or without a first row of names. All of it is read when it is
 * opened.
 */
#include <float.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/load.h"

enum { MOST_COLUMNS = 1 << 16, CELL_BYTES = 64, NAME_BYTES = 64 };

typedef struct table {
    const char *path;
    char separator;
    int64_t columns, rows;
    int64_t label; /* column; -1: none */
    int64_t classes;
    float *features; /* (rows, columns without the label) */
    int64_t *labels;
    locale_t c;
} table;

/* A line of the text, without its end. */
typedef struct line {
    const char *at, *end;
    int64_t number; /* from 1 */
} line;

/* ---- lines and cells ----------------------------------------------------- */

/* The next that is not empty. */
static bool next_line(const char **at, const char *end, line *out)
{
    while (*at < end) {
        const char *stop = memchr(*at, '\n', (size_t)(end - *at));
        const char *next = stop != NULL ? stop + 1 : end;
        *out = (line){*at, stop != NULL ? stop : end, out->number + 1};
        *at = next;
        if (out->end > out->at && out->end[-1] == '\r')
            out->end--;
        if (out->end > out->at)
            return true;
    }
    return false;
}

static char separator_of(line l)
{
    const size_t n = (size_t)(l.end - l.at);
    if (memchr(l.at, ';', n) != NULL)
        return ';';
    return memchr(l.at, '\t', n) != NULL ? '\t' : ',';
}

/* The next cell, without spaces and quotes around it. */
static line next_cell(const table *t, line *rest)
{
    const char *stop =
        memchr(rest->at, t->separator, (size_t)(rest->end - rest->at));
    line cell = {rest->at, stop != NULL ? stop : rest->end, rest->number};
    rest->at = stop != NULL ? stop + 1 : rest->end;
    while (cell.at < cell.end && (*cell.at == ' ' || *cell.at == '"'))
        cell.at++;
    while (cell.at < cell.end && (cell.end[-1] == ' ' || cell.end[-1] == '"'))
        cell.end--;
    return cell;
}

static int64_t count_cells(const table *t, line l)
{
    int64_t n = 1;
    for (const char *at = l.at; at < l.end; at++)
        n += *at == t->separator;
    return n;
}

/* NaN, infinities and more than a float holds are read, too. */
static bool read_cell(const table *t, line cell, double *out)
{
    char text[CELL_BYTES];
    char *end;
    const size_t n = (size_t)(cell.end - cell.at);
    if (n == 0 || n >= sizeof text)
        return false;
    memcpy(text, cell.at, n);
    text[n] = '\0';
    *out = strtod_l(text, &end, t->c);
    return end == text + n;
}

static bool to_number(const table *t, line cell, double *out)
{
    return read_cell(t, cell, out) && fabs(*out) <= FLT_MAX;
}

/* ---- rows ---------------------------------------------------------------- */

static ls_status bad_cell(const table *t, line cell, int64_t column,
                          const char *want)
{
    const int n = (int)(cell.end - cell.at < 40 ? cell.end - cell.at : 40);
    return lsi_fail(LS_ERR_FORMAT,
                    "'%s', line %" PRId64 ", column %" PRId64
                    ": '%.*s' is no %s",
                    t->path, cell.number, column + 1, n, cell.at, want);
}

static ls_status take_label(table *t, line cell, double value, int64_t row)
{
    enum { MOST_CLASSES = 1 << 24 };
    if (value != floor(value) || value < 0 || value >= MOST_CLASSES)
        return bad_cell(t, cell, t->label, "class, 0, 1, 2, ...");
    t->labels[row] = (int64_t)value;
    if (t->labels[row] >= t->classes)
        t->classes = t->labels[row] + 1;
    return LS_OK;
}

static ls_status check_row(const table *t, line l)
{
    const int64_t n = count_cells(t, l);
    if (n == t->columns)
        return LS_OK;
    return lsi_fail(LS_ERR_FORMAT,
                    "'%s', line %" PRId64 ": %" PRId64 " columns; the first "
                    "row has %" PRId64,
                    t->path, l.number, n, t->columns);
}

static ls_status take_row(table *t, line l, int64_t row)
{
    const int64_t features = t->columns - (t->label >= 0);
    float *to = t->features + row * features;
    for (int64_t c = 0; c < t->columns; c++) {
        const line cell = next_cell(t, &l);
        double value;
        if (!to_number(t, cell, &value))
            return bad_cell(t, cell, c, "number");
        if (c == t->label)
            LS_TRY(take_label(t, cell, value, row));
        else
            *to++ = (float)value;
    }
    return LS_OK;
}

/*
 * Whether a row is one of names: a cell of it is something else than a number.
 * One that lacks numbers only is bad.
 */
static bool has_names(const table *t, line l)
{
    for (int64_t c = 0; c < t->columns; c++) {
        const line cell = next_cell(t, &l);
        double value;
        if (cell.at < cell.end && !read_cell(t, cell, &value))
            return true;
    }
    return false;
}

/* ---- the table ----------------------------------------------------------- */

/* By its name in the first row, or as "last". */
static ls_status find_label(table *t, const char *label, line first, bool named)
{
    t->label = -1;
    if (label == NULL)
        return LS_OK;
    for (int64_t c = 0; named && c < t->columns; c++) {
        const line cell = next_cell(t, &first);
        const size_t n = (size_t)(cell.end - cell.at);
        if (strlen(label) == n && memcmp(label, cell.at, n) == 0)
            t->label = c;
    }
    if (t->label < 0 && strcmp(label, "last") == 0)
        t->label = t->columns - 1;
    if (t->label >= 0)
        return LS_OK;
    return lsi_fail(LS_ERR_ARGUMENT,
                    named ? "'%s' has no column '%s'"
                          : "'%s' has no names of columns, so none is '%s'; "
                            "expected \"last\" or NULL",
                    t->path, label);
}

/* All rows are as long as the first, so there is as much as is asked for. */
static ls_status alloc_rows(table *t, const char *at, const char *end,
                            int64_t number)
{
    void *block = NULL;
    line l = {.number = number};
    for (; next_line(&at, end, &l); t->rows++)
        LS_TRY(check_row(t, l));
    const int64_t features = t->columns - (t->label >= 0);
    LS_TRY(lsi_alloc(&block, (size_t)(t->rows * features) * sizeof(float),
                     LS_MEMORY_DATA, "a table of numbers"));
    t->features = block;
    if (t->label < 0)
        return LS_OK;
    LS_TRY(lsi_alloc(&block, (size_t)t->rows * sizeof(int64_t), LS_MEMORY_DATA,
                     "labels of a table"));
    t->labels = block;
    return LS_OK;
}

static ls_status parse(table *t, const lsi_records *file, const char *label)
{
    const char *at = (const char *)file->data, *const end = at + file->bytes;
    line l = {0};
    if (file->bytes >= 3 && memcmp(at, "\xef\xbb\xbf", 3) == 0)
        at += 3; /* the mark of UTF-8, as spreadsheets write it */
    const char *rows = at;
    if (memchr(at, '\0', (size_t)(end - at)) != NULL)
        return lsi_fail(LS_ERR_FORMAT,
                        "'%s' is %s; a table of numbers is text, a row a line",
                        t->path,
                        lsi_magic_name(lsi_magic_of(file->data, file->bytes)));
    if (!next_line(&at, end, &l))
        return lsi_fail(LS_ERR_FORMAT, "'%s' holds no rows", t->path);
    t->separator = separator_of(l);
    t->columns = count_cells(t, l);
    const bool named = has_names(t, l);
    LS_TRY(find_label(t, label, l, named));
    if (t->columns > MOST_COLUMNS || t->columns == (t->label >= 0))
        return lsi_fail(LS_ERR_FORMAT,
                        "'%s' has %" PRId64 " columns; expected 1 to %d beside "
                        "the label",
                        t->path, t->columns, MOST_COLUMNS);
    rows = named ? at : rows;
    line numbered = {.number = named ? l.number : 0};
    LS_TRY(alloc_rows(t, rows, end, numbered.number));
    for (int64_t row = 0; next_line(&rows, end, &numbered); row++)
        LS_TRY(take_row(t, numbered, row));
    if (t->rows > 0)
        return LS_OK;
    return lsi_fail(LS_ERR_FORMAT, "'%s' holds names of columns, but no rows",
                    t->path);
}

/* ---- the dataset --------------------------------------------------------- */

static ls_status read_row(void *context, int64_t index, uint64_t epoch,
                          void *const *fields)
{
    const table *const t = context;
    const int64_t features = t->columns - (t->label >= 0);
    (void)epoch;
    memcpy(fields[0], t->features + index * features,
           (size_t)features * sizeof(float));
    if (t->label >= 0)
        *(int64_t *)fields[1] = t->labels[index];
    return LS_OK;
}

static int64_t label_of(void *context, int64_t index)
{
    const table *const t = context;
    return t->labels[index];
}

static void free_table(void *context)
{
    table *const t = context;
    lsi_free(t->features);
    lsi_free(t->labels);
    lsi_free(t);
}

static ls_status make_dataset(ls_dataset **out, table *t)
{
    const bool labelled = t->label >= 0;
    const ls_field fields[] = {
        {"features", LS_F32, 1, {t->columns - labelled}},
        {"label", LS_I64, 0, {0}},
    };
    const ls_dataset_source source = {.count = t->rows,
                                      .n_fields = labelled ? 2 : 1,
                                      .fields = fields,
                                      .read = read_row,
                                      .classes = t->classes,
                                      .label = labelled ? label_of : NULL,
                                      .context = t,
                                      .free = free_table};
    return lsi_dataset_new(out, &source, true);
}

static ls_status load(table *t, const char *path, const char *label)
{
    lsi_records file;
    t->path = path;
    t->c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (t->c == (locale_t)0)
        return lsi_fail(LS_ERR_MEMORY, "no memory to read '%s'", path);
    ls_status status = lsi_records_load(&file, path);
    if (status == LS_OK) {
        status = parse(t, &file, label);
        file.release(file.data, file.bytes);
    }
    freelocale(t->c);
    return status;
}

ls_status ls_dataset_new_csv(ls_dataset **out, const char *path,
                             const char *label)
{
    void *block = NULL;
    LS_NEED(out);
    LS_NEED(path);
    LS_TRY(lsi_alloc_zeroed(&block, sizeof(table), LS_MEMORY_DATA,
                            "a table of numbers"));
    table *const t = block;
    ls_status status = load(t, path, label);
    if (status == LS_OK)
        status = make_dataset(out, t);
    if (status != LS_OK)
        free_table(t);
    return status;
}

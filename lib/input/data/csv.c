/*
 * Tables of numbers in text, with or without a first row of names. All of it is
 * read when it is opened.
 */
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/structs.h"
#include "input/data/csv_text.h"
#include "input/data/unpack.h"

enum { MOST_COLUMNS = 1 << 16 };

typedef struct table {
    const char *path;
    int64_t columns, rows;
    int64_t guessed; /* line of the first row if it was taken for data, or 0 */
    int64_t label;   /* column; -1: none */
    int64_t classes;
    float *features; /* (rows, columns without the label) */
    int64_t *labels;
    locale_t c;
} table;

/* ---- rows ---------------------------------------------------------------- */

static ls_status bad_cell(const table *t, const lsi_csv_cell *cell,
                          const char *want)
{
    const int n = (int)(cell->end - cell->at < 40 ? cell->end - cell->at : 40);
    return lsi_fail(LS_ERR_FORMAT,
                    "'%s', line %" PRId64 ", column %" PRId64
                    ": '%.*s' is not a %s%s",
                    t->path, cell->line, cell->column + 1, n, cell->at, want,
                    cell->line == t->guessed
                        ? "; if the first row names the columns, set header "
                          "to LS_CSV_HEADER in ls_csv_options"
                        : "");
}

static ls_status store_label(table *t, const lsi_csv_cell *cell, double value,
                             int64_t row)
{
    enum { MOST_CLASSES = 1 << 24 };
    if (value != floor(value) || value < 0 || value >= MOST_CLASSES)
        return bad_cell(t, cell, "class number (0, 1, 2, ...)");
    t->labels[row] = (int64_t)value;
    if (t->labels[row] >= t->classes)
        t->classes = t->labels[row] + 1;
    return LS_OK;
}

static ls_status count_cells(lsi_csv_text *text, int64_t *out)
{
    lsi_csv_cell cell = {.last = true};
    do {
        LS_TRY(lsi_csv_next_cell(text, &cell));
    } while (!cell.last);
    *out = cell.column + 1;
    return LS_OK;
}

static ls_status check_row(const table *t, lsi_csv_text *text)
{
    const int64_t line = text->line;
    int64_t n;
    LS_TRY(count_cells(text, &n));
    if (n == t->columns)
        return LS_OK;
    return lsi_fail(LS_ERR_FORMAT,
                    "'%s', line %" PRId64 ": this row has %" PRId64
                    " columns, but the first row has %" PRId64,
                    t->path, line, n, t->columns);
}

static ls_status parse_row(table *t, lsi_csv_text *text, int64_t row)
{
    const int64_t features = t->columns - (t->label >= 0);
    float *to = t->features + row * features;
    lsi_csv_cell cell = {.last = true};
    do {
        double value;
        LS_TRY(lsi_csv_next_cell(text, &cell));
        if (!lsi_csv_number(text, &cell, &value))
            return bad_cell(t, &cell, "number");
        if (cell.column == t->label)
            LS_TRY(store_label(t, &cell, value, row));
        else
            *to++ = (float)value;
    } while (!cell.last);
    return LS_OK;
}

/* ---- the table ----------------------------------------------------------- */

/* By its name in the first row, or as "last". */
static ls_status find_label(table *t, const char *label, lsi_csv_text first,
                            bool named)
{
    lsi_csv_cell cell = {.last = true};
    t->label = -1;
    if (label == NULL)
        return LS_OK;
    do {
        LS_TRY(lsi_csv_next_cell(&first, &cell));
        if (named && lsi_csv_is(&cell, label))
            t->label = cell.column;
    } while (!cell.last);
    if (t->label < 0 && strcmp(label, "last") == 0)
        t->label = t->columns - 1;
    if (t->label >= 0)
        return LS_OK;
    return lsi_fail(
        LS_ERR_ARGUMENT,
        named ? "'%s' has no column '%s'"
              : "the first row of '%s' does not name the columns, so the label "
                "'%s' cannot be found; expected \"last\" or NULL",
        t->path, label);
}

/* Checks that all rows are as long as the first; allocates their numbers. */
static ls_status alloc_rows(table *t, lsi_csv_text text)
{
    for (; lsi_csv_next_row(&text); t->rows++)
        LS_TRY(check_row(t, &text));
    const int64_t features = t->columns - (t->label >= 0);
    LS_TRY(lsi_alloc(&t->features, (size_t)(t->rows * features) * sizeof(float),
                     LS_MEMORY_DATA, "a table of numbers"));
    if (t->label < 0)
        return LS_OK;
    return lsi_alloc(&t->labels, (size_t)t->rows * sizeof(int64_t),
                     LS_MEMORY_DATA, "labels of a table");
}

/* Leaves the text at the first row of numbers. */
static ls_status read_first_row(table *t, lsi_csv_text *text, const char *label,
                                ls_csv_header header)
{
    const bool is_last = label != NULL && strcmp(label, "last") == 0;
    bool named = header == LS_CSV_HEADER;
    if (!lsi_csv_next_row(text))
        return lsi_fail(LS_ERR_FORMAT, "'%s' holds no rows", t->path);
    lsi_csv_text after = *text;
    LS_TRY(count_cells(&after, &t->columns));
    if (header == LS_CSV_AUTO) {
        LS_TRY(lsi_csv_has_names(text, is_last ? NULL : label, &named));
        t->guessed = named ? 0 : text->line;
    }
    LS_TRY(find_label(t, label, *text, named));
    if (t->columns > MOST_COLUMNS || t->columns == (t->label >= 0))
        return lsi_fail(LS_ERR_FORMAT,
                        "'%s' has %" PRId64
                        " columns; expected 1 to %d in addition to the label",
                        t->path, t->columns, MOST_COLUMNS);
    if (named)
        *text = after;
    return LS_OK;
}

static ls_status parse(table *t, const lsi_records *file, const char *label,
                       ls_csv_header header)
{
    const char *at = (const char *)file->data, *const end = at + file->bytes;
    if (file->bytes >= 3 && memcmp(at, "\xef\xbb\xbf", 3) == 0)
        at += 3; /* the mark of UTF-8, as spreadsheets write it */
    if (memchr(at, '\0', (size_t)(end - at)) != NULL)
        return lsi_fail(LS_ERR_FORMAT,
                        "'%s' is %s; expected a table of numbers as text, with "
                        "one row on each line",
                        t->path,
                        lsi_magic_name(lsi_magic_of(file->data, file->bytes)));
    lsi_csv_text text = {
        .path = t->path, .c = t->c, .at = at, .end = end, .line = 1};
    lsi_csv_choose_separator(&text);
    LS_TRY(read_first_row(t, &text, label, header));
    LS_TRY(alloc_rows(t, text));
    for (int64_t row = 0; lsi_csv_next_row(&text); row++)
        LS_TRY(parse_row(t, &text, row));
    if (t->rows > 0)
        return LS_OK;
    return lsi_fail(LS_ERR_FORMAT,
                    "'%s' holds column names, but no rows of numbers", t->path);
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

static ls_status load(table *t, const char *path, const char *label,
                      ls_csv_header header)
{
    lsi_records file;
    t->path = path;
    t->c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (t->c == (locale_t)0)
        return lsi_fail(LS_ERR_MEMORY, "not enough memory to read '%s'", path);
    ls_status status = lsi_records_load(&file, path);
    if (status == LS_OK) {
        status = parse(t, &file, label, header);
        lsi_records_release(&file);
    }
    freelocale(t->c);
    return status;
}

ls_status ls_dataset_new_csv(ls_dataset **out, const char *path,
                             const char *label, const ls_csv_options *options)
{
    static const ls_csv_options usual = {0};
    ls_csv_options o;
    table *t;
    LS_NEED(out, path);
    LS_TRY(LSI_STRUCT_READ(&o, options != NULL ? options : &usual,
                           ls_csv_options, header));
    if ((unsigned)o.header > LS_CSV_NO_HEADER)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "csv: header is %d; expected LS_CSV_AUTO, "
                        "LS_CSV_HEADER or LS_CSV_NO_HEADER",
                        (int)o.header);
    LS_TRY(lsi_alloc_zeroed(&t, sizeof(table), LS_MEMORY_DATA,
                            "a table of numbers"));
    ls_status status = load(t, path, label, o.header);
    if (status == LS_OK)
        status = make_dataset(out, t);
    if (status != LS_OK)
        free_table(t);
    return status;
}

/*
 * Tables: recorded row by row, and written for spreadsheets (CSV) and programs
 * (JSON with its origin).
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/memory.h"
#include "report/machine.h"
#include "report/result.h"
#include "report/table_private.h"

/* ---- recording -------------------------------------------------------- */

static void fail_memory(lsi_table *table)
{
    table->status =
        lsi_fail(LS_ERR_MEMORY, "not enough memory for the table of results");
}

ls_status lsi_table_new(lsi_table **out, const lsi_column *columns, size_t n)
{
    void *block;
    LS_TRY(lsi_alloc(&block, sizeof(lsi_table), LS_MEMORY_OTHER, "a table"));
    lsi_table *table = block;
    *table =
        (lsi_table){.columns = columns, .n_columns = n, .rows = json_array()};
    if (table->rows == NULL) {
        lsi_free(block);
        return lsi_fail(LS_ERR_MEMORY,
                        "not enough memory for the table of results");
    }
    *out = table;
    return LS_OK;
}

void lsi_table_free(lsi_table **table)
{
    if (table == NULL || *table == NULL)
        return;
    json_decref((*table)->rows);
    lsi_free(*table);
    *table = NULL;
}

void lsi_table_row(lsi_table *table)
{
    if (table->status == LS_OK &&
        json_array_append_new(table->rows, json_object()) != 0)
        fail_memory(table);
}

static const lsi_column *find(const lsi_table *table, const char *name)
{
    for (size_t i = 0; i < table->n_columns; i++) {
        if (strcmp(table->columns[i].name, name) == 0)
            return &table->columns[i];
    }
    return NULL;
}

/* Takes over the reference to `value`, which may be NULL (no memory). */
static void set(lsi_table *table, const char *name, lsi_column_type type,
                json_t *value)
{
    const lsi_column *column = find(table, name);
    const size_t rows = json_array_size(table->rows);
    if (table->status != LS_OK) {
        json_decref(value);
    } else if (column == NULL || column->type != type || rows == 0) {
        json_decref(value);
        table->status =
            lsi_fail(LS_ERR_STATE,
                     "cannot store a value in column '%s': the table has no "
                     "such column, no row, or another type for this column",
                     name);
    } else if (json_object_set_new(json_array_get(table->rows, rows - 1), name,
                                   value) != 0) {
        fail_memory(table);
    }
}

void lsi_table_text(lsi_table *table, const char *column, const char *value)
{
    set(table, column, LSI_COLUMN_TEXT, lsi_json_text(value, strlen(value)));
}

void lsi_table_int(lsi_table *table, const char *column, int64_t value)
{
    set(table, column, LSI_COLUMN_INT, json_integer(value));
}

void lsi_table_real(lsi_table *table, const char *column, double value)
{
    /* JSON has no NaN and no infinity. */
    const bool finite = value - value == 0;
    set(table, column, LSI_COLUMN_REAL,
        finite ? json_real(value) : json_null());
}

void lsi_table_bool(lsi_table *table, const char *column, bool value)
{
    set(table, column, LSI_COLUMN_BOOL, json_boolean(value));
}

void lsi_table_stats(lsi_table *table, const char *column,
                     const lsi_stats *stats, double factor)
{
    const struct {
        const char *name;
        double value;
    } parts[] = {
        {"min", stats->min}, {"median", stats->median}, {"mean", stats->mean},
        {"p99", stats->p99}, {"max", stats->max},       {"std", stats->std},
    };
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        char name[128];
        snprintf(name, sizeof(name), "%s.%s", column, parts[i].name);
        if (find(table, name) != NULL)
            lsi_table_real(table, name, parts[i].value * factor);
    }
}

size_t lsi_table_row_count(const lsi_table *table)
{
    return json_array_size(table->rows);
}

bool lsi_table_number(const lsi_table *table, size_t row, const char *column,
                      double *out)
{
    const json_t *const value =
        json_object_get(json_array_get(table->rows, row), column);
    if (!json_is_number(value))
        return false;
    *out = json_number_value(value);
    return true;
}

void lsi_table_show_wide(lsi_table *table)
{
    table->wide = true;
}

void lsi_table_set_runs(lsi_table *table, int64_t runs)
{
    enum { LEAST = 100 };
    table->few_runs = runs < LEAST;
}

ls_status lsi_table_status(const lsi_table *table)
{
    return table->status;
}

ls_status lsi_table_dump(const lsi_table *table, char **out)
{
    LS_TRY(table->status);
    char *text = lsi_json_dumps(table->rows, JSON_COMPACT);
    if (text == NULL)
        return lsi_fail(LS_ERR_MEMORY,
                        "not enough memory for the table of results");
    *out = text;
    return LS_OK;
}

void lsi_table_load(lsi_table *table, const char *text, size_t bytes)
{
    if (table->status != LS_OK)
        return;
    json_error_t error;
    json_t *rows = NULL;
    const ls_status status = lsi_json_loadb(text, bytes, 0, &rows, &error);
    if (status == LS_ERR_MEMORY)
        table->status = status;
    else if (!json_is_array(rows))
        table->status =
            lsi_fail(LS_ERR_FORMAT, "cannot read the results of the ranks: %s",
                     error.text);
    else if (json_array_extend(table->rows, rows) != 0)
        fail_memory(table);
    json_decref(rows);
}

/* ---- writing ---------------------------------------------------------- */

const json_t *lsi_table_cell(const lsi_table *table, size_t row, size_t column)
{
    const json_t *value = json_object_get(json_array_get(table->rows, row),
                                          table->columns[column].name);
    return json_is_null(value) ? NULL : value;
}

ls_status lsi_table_fail_stream(void)
{
    return lsi_fail_errno(LS_ERR_IO, "cannot write the table");
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
    return fflush(stream) == 0 ? LS_OK : lsi_table_fail_stream();
}

/* ---- JSON ------------------------------------------------------------- */

/*
 * The object at a dotted path without its last part; missing objects are made.
 */
static json_t *parent_of(json_t *object, const char *path, const char **last)
{
    const char *dot;
    while ((dot = strchr(path, '.')) != NULL) {
        const size_t length = (size_t)(dot - path);
        json_t *inner = json_object_getn(object, path, length);
        if (inner == NULL) {
            inner = json_object();
            if (json_object_setn_new(object, path, length, inner) != 0)
                return NULL;
        }
        object = inner;
        path = dot + 1;
    }
    *last = path;
    return object;
}

/* A row with "time_us.min" turned into "time_us": {"min": ..}. */
static json_t *nested(const lsi_table *table, size_t row)
{
    json_t *object = json_object();
    for (size_t i = 0; i < table->n_columns; i++) {
        const char *name;
        json_t *parent = parent_of(object, table->columns[i].name, &name);
        const json_t *value = lsi_table_cell(table, row, i);
        json_t *copy = value ? json_deep_copy(value) : json_null();
        if (parent == NULL || json_object_set_new(parent, name, copy) != 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

static json_t *nested_rows(const lsi_table *table)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < lsi_table_row_count(table); i++) {
        if (json_array_append_new(rows, nested(table, i)) != 0) {
            json_decref(rows);
            return NULL;
        }
    }
    return rows;
}

static json_t *document_of(const lsi_table *table, int argc,
                           const char *const *argv)
{
    json_t *const document = lsi_origin_json(argc, argv);
    if (json_object_set_new(document, "rows", nested_rows(table)) == 0)
        return document;
    json_decref(document);
    return NULL;
}

ls_status lsi_table_json(const lsi_table *table, int argc,
                         const char *const *argv, char **out)
{
    LS_TRY(table->status);
    json_t *const document = document_of(table, argc, argv);
    char *text =
        lsi_json_dumps(document, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    json_decref(document);
    if (text == NULL)
        return lsi_fail(LS_ERR_MEMORY,
                        "not enough memory for the table of results");
    *out = text;
    return LS_OK;
}

ls_status lsi_table_json_write(const lsi_table *table, int argc,
                               const char *const *argv, const char *path)
{
    LS_TRY(table->status);
    return lsi_result_write_json(path, document_of(table, argc, argv),
                                 LSI_JSON_WIDE, "a table of results");
}

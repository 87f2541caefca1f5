/*
 * Recording results row by row.
 */
#include "report/table.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/memory.h"
#include "report/table_private.h"

static void fail_memory(lsi_table *table)
{
    table->status = lsi_fail(LS_ERR_MEMORY, "no memory for a table of results");
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
        return lsi_fail(LS_ERR_MEMORY, "no memory for a table of results");
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
        table->status = lsi_fail(LS_ERR_STATE,
                                 "the table has no row with a column \"%s\" "
                                 "of that type",
                                 name);
    } else if (json_object_set_new(json_array_get(table->rows, rows - 1), name,
                                   value) != 0) {
        fail_memory(table);
    }
}

void lsi_table_text(lsi_table *table, const char *column, const char *value)
{
    set(table, column, LSI_COLUMN_TEXT, json_string(value));
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
        return lsi_fail(LS_ERR_MEMORY, "no memory for a table of results");
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
        table->status = lsi_fail(LS_ERR_FORMAT, "malformed rows of results: %s",
                                 error.text);
    else if (json_array_extend(table->rows, rows) != 0)
        fail_memory(table);
    json_decref(rows);
}

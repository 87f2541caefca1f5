/*
 * Tables for programs: one JSON document with its origin.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "report/machine.h"
#include "report/result.h"
#include "report/table_private.h"

/* The object at a dotted path without its last part, made where missing. */
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

ls_status lsi_table_json(const lsi_table *table, int argc,
                         const char *const *argv, char **out)
{
    LS_TRY(table->status);
    json_t *document = lsi_origin_json(argc, argv);
    if (json_object_set_new(document, "rows", nested_rows(table)) != 0) {
        json_decref(document);
        document = NULL;
    }
    char *text =
        lsi_json_dumps(document, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    json_decref(document);
    if (text == NULL)
        return lsi_fail(LS_ERR_MEMORY, "no memory for a table of results");
    *out = text;
    return LS_OK;
}

ls_status lsi_table_json_write(const lsi_table *table, int argc,
                               const char *const *argv, const char *path)
{
    char *text;
    LS_TRY(lsi_table_json(table, argc, argv, &text));
    /* The terminating zero becomes the end of the last line. */
    const size_t length = strlen(text);
    text[length] = '\n';
    const ls_status status = lsi_result_write(path, text, length + 1);
    free(text);
    return status;
}

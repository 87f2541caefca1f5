/*
 * Reading rows that commands have written, and looking things up in them.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "cli/commands/report/report.h"

enum { MOST_BYTES = 256 << 20, WORD_BYTES = 128 };

static ls_status parse_json(const char *path, const char *text, size_t bytes,
                            json_t **out)
{
    json_error_t error;
    const ls_status status = lsi_json_loadb(text, bytes, 0, out, &error);
    if (status == LS_ERR_MEMORY)
        return status;
    if (status != LS_OK)
        return lsi_fail(LS_ERR_FORMAT, "'%s' is not JSON (line %d: %s)", path,
                        error.line, error.text);
    if (json_is_string(json_object_get(*out, "lockstep")))
        return LS_OK;
    json_decref(*out);
    *out = NULL;
    return lsi_fail(
        LS_ERR_FORMAT,
        "'%s' is JSON, but not the output of a Lockstep command with --json",
        path);
}

/* A line without its end is one that is still being written. */
static ls_status parse_lines(const char *path, const char *text,
                             lsi_rows_kind kind, json_t **out)
{
    json_t *const rows = json_array();
    int line = 0;
    while (*text != '\0') {
        const size_t length = strcspn(text, "\n");
        json_t *row = NULL;
        json_error_t error;
        line++;
        if (kind == LSI_ROWS_OUTPUT)
            row = json_stringn(text, length);
        else if (text[length] == '\n')
            (void)lsi_json_loadb(text, length, 0, &row, &error);
        if (row == NULL && text[length] == '\0')
            break;
        if (row == NULL || (kind == LSI_ROWS_METRICS && !json_is_object(row))) {
            json_decref(row);
            json_decref(rows);
            return lsi_fail(LS_ERR_FORMAT,
                            "'%s', line %d: this line does not have the format "
                            "that --metrics writes",
                            path, line);
        }
        json_array_append_new(rows, row);
        text += length + (text[length] == '\n');
    }
    *out = json_pack("{s:o}", "rows", rows);
    return *out != NULL
               ? LS_OK
               : lsi_fail(LS_ERR_MEMORY,
                          "not enough memory for the results of a measurement");
}

ls_status lsi_rows_read(const char *path, lsi_rows_kind kind, json_t **out)
{
    char *text;
    size_t bytes;
    *out = NULL;
    ls_status status;
    LS_TRY(lsi_read_regular(path, MOST_BYTES, &text, &bytes));
    if (kind == LSI_ROWS_JSON)
        status = parse_json(path, text, bytes, out);
    else if (strlen(text) != bytes)
        status = lsi_fail(LS_ERR_FORMAT, "'%s' is damaged: byte %zu is zero",
                          path, strlen(text));
    else
        status = parse_lines(path, text, kind, out);
    lsi_free(text);
    return status;
}

void lsi_rows_path(const lsi_measurement *m, char *out, size_t bytes)
{
    static const char *const ends[] = {[LSI_ROWS_JSON] = "json",
                                       [LSI_ROWS_METRICS] = "jsonl",
                                       [LSI_ROWS_OUTPUT] = "txt"};
    snprintf(out, bytes, "rows/%s.%s", m->id, ends[m->kind]);
}

static const lsi_measurement *find_measurement(const char *id)
{
    for (size_t i = 0; i < lsi_sections_count; i++) {
        for (size_t k = 0; k < lsi_sections[i]->n; k++) {
            if (strcmp(lsi_sections[i]->measurements[k].id, id) == 0)
                return &lsi_sections[i]->measurements[k];
        }
    }
    return NULL;
}

json_t *lsi_rows_of(const char *id)
{
    char path[WORD_BYTES];
    json_t *rows = NULL;
    const lsi_measurement *const m = find_measurement(id);
    if (m == NULL)
        return NULL;
    lsi_rows_path(m, path, sizeof(path));
    if (access(path, R_OK) != 0 || lsi_rows_read(path, m->kind, &rows) != LS_OK)
        return NULL;
    return rows;
}

void lsi_rows_append(json_t *all, const char *id)
{
    json_t *const file = lsi_rows_of(id);
    json_array_extend(all, json_object_get(file, "rows"));
    json_decref(file);
}

const json_t *lsi_at(const json_t *row, const char *path)
{
    while (row != NULL && *path != '\0') {
        char key[WORD_BYTES];
        const size_t length = strcspn(path, ".");
        snprintf(key, sizeof(key), "%.*s", (int)length, path);
        row = json_object_get(row, key);
        path += length + (path[length] == '.');
    }
    return json_is_null(row) ? NULL : row;
}

double lsi_number_at(const json_t *row, const char *path)
{
    const json_t *const value = lsi_at(row, path);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

const char *lsi_string_at(const json_t *row, const char *path)
{
    const char *const text = json_string_value(lsi_at(row, path));
    return text != NULL ? text : "";
}

static bool value_is(const json_t *value, const char *text)
{
    if (json_is_string(value))
        return strcmp(json_string_value(value), text) == 0;
    if (json_is_boolean(value))
        return strcmp(json_is_true(value) ? "true" : "false", text) == 0;
    return json_is_number(value) &&
           json_number_value(value) == strtod(text, NULL);
}

static bool row_fits(const json_t *row, const char *conditions)
{
    while (*conditions != '\0') {
        char key[WORD_BYTES], text[WORD_BYTES];
        const size_t name = strcspn(conditions, "=");
        conditions += snprintf(key, sizeof(key), "%.*s", (int)name, conditions);
        conditions += *conditions == '=';
        const size_t length = strcspn(conditions, " ");
        snprintf(text, sizeof(text), "%.*s", (int)length, conditions);
        conditions += length + (conditions[length] == ' ');
        if (!value_is(lsi_at(row, key), text))
            return false;
    }
    return true;
}

json_t *lsi_rows_where(const json_t *rows, const char *conditions)
{
    size_t i;
    json_t *row;
    json_t *const found = json_array();
    json_array_foreach(json_object_get(rows, "rows"), i, row)
    {
        if (row_fits(row, conditions))
            json_array_append(found, row);
    }
    return found;
}

const json_t *lsi_row_where(const json_t *rows, const char *conditions)
{
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(rows, "rows"), i, row)
    {
        if (row_fits(row, conditions))
            return row;
    }
    return NULL;
}

json_t *lsi_study_peers(const lsi_study *report, const char *what)
{
    char condition[WORD_BYTES];
    snprintf(condition, sizeof(condition), "what=%s", what);
    return lsi_rows_where(report->peers, condition);
}

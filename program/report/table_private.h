/*
 * What the table's recorder and its writers share.
 */
#ifndef LS_REPORT_TABLE_PRIVATE_H
#define LS_REPORT_TABLE_PRIVATE_H

#include <jansson.h>

#include "report/table.h"

struct lsi_table {
    const lsi_column *columns;
    size_t n_columns;
    json_t *rows; /* an array of flat objects, keyed by column name */
    bool wide;
    bool few_runs; /* so that a p99 is a maximum */
    ls_status status;
};

/* The value of a column in a row, or NULL where it is empty. */
static inline const json_t *lsi_table_cell(const lsi_table *table, size_t row,
                                           size_t column)
{
    const json_t *value = json_object_get(json_array_get(table->rows, row),
                                          table->columns[column].name);
    return json_is_null(value) ? NULL : value;
}

#endif

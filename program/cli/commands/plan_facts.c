#include "cli/commands/plan_facts.h"

#include <stdio.h>

#include "base/error.h"
#include "report/machine.h"
#include "report/result.h"
#include "report/table.h"

static const lsi_column fact_columns[] = {
    LSI_COLUMN(TEXT, "part", "Part"),
    LSI_COLUMN(TEXT, "name", "Quantity"),
    LSI_COLUMN(TEXT, "value", "Value"),
    LSI_COLUMN(TEXT, "unit", "Unit"),
    LSI_COLUMN(TEXT, "formula", "Formula"),
};

/* Whole numbers of doubles up to here are exact. */
static const double most_whole = 0x1p53;

/* Digits of a real that is shown: those that mean something. */
static void value_text(const lsi_fact *fact, char text[32])
{
    const double v = fact->value;
    if (fact->whole && v < most_whole)
        snprintf(text, 32, "%.0f", v);
    else if (v >= 1e6 || (v < 0.1 && v > 0))
        snprintf(text, 32, "%.4g", v);
    else
        snprintf(text, 32, "%.*f", v >= 100 ? 1 : 2, v);
}

ls_status lsi_plan_print_facts(const lsi_facts *facts)
{
    lsi_table *table = NULL;
    LS_TRY(LSI_TABLE_NEW(&table, fact_columns));
    for (size_t i = 0; i < facts->n; i++) {
        const lsi_fact *const fact = &facts->all[i];
        char text[32];
        value_text(fact, text);
        lsi_table_row(table);
        lsi_table_text(table, "part", fact->part);
        lsi_table_text(table, "name", fact->name);
        lsi_table_text(table, "value", text);
        lsi_table_text(table, "unit", fact->unit);
        lsi_table_text(table, "formula", fact->formula);
    }
    const ls_status status = lsi_table_print(table, stdout);
    lsi_table_free(&table);
    return status;
}

json_t *lsi_plan_facts_json(const lsi_facts *facts)
{
    json_t *values = json_object();
    for (size_t i = 0; i < facts->n; i++) {
        const lsi_fact *const fact = &facts->all[i];
        const bool whole = fact->whole && fact->value < most_whole;
        json_object_set_new(values, fact->name,
                            whole ? json_integer((json_int_t)fact->value)
                                  : json_real(fact->value));
    }
    return values;
}

ls_status lsi_plan_write(const lsi_invocation *call, const char *path,
                         const char *preset, json_t *values)
{
    json_t *document =
        lsi_origin_json(call->line_argc, (const char *const *)call->line_argv);
    if (preset != NULL)
        json_object_set_new(document, "preset", json_string(preset));
    if (values == NULL || json_object_update(document, values) != 0) {
        json_decref(document);
        document = NULL;
    }
    json_decref(values);
    return lsi_result_write_json(path, document, LSI_JSON_WIDE, path);
}

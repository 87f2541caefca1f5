#include "cli/frame/flags_json.h"

#include <assert.h>
#include <string.h>

#include "base/json.h"

static json_t *integer(const lsi_option *row, const void *field)
{
    int64_t value;
    memcpy(&value, field, sizeof(value));
    const bool given =
        row->default_value != NULL || value != (int64_t)row->unset;
    return given ? json_integer(value) : json_null();
}

static json_t *real(const lsi_option *row, const void *field)
{
    double value;
    memcpy(&value, field, sizeof(value));
    const bool given = row->default_value != NULL || value != row->unset;
    return given ? json_real(value) : json_null();
}

static json_t *string(const void *field)
{
    const char *value;
    memcpy((void *)&value, field, sizeof(value));
    return value != NULL ? lsi_json_text(value, strlen(value)) : json_null();
}

/* null: it has no default and was not given. */
static json_t *value_of(const lsi_option *row, const void *values)
{
    const char *const field = (const char *)values + row->offset;
    switch (row->type) {
    case LSI_OPTION_BOOL:
        return json_boolean(*(const bool *)field);
    case LSI_OPTION_INT:
    case LSI_OPTION_BYTES:
        return integer(row, field);
    case LSI_OPTION_REAL:
        return real(row, field);
    case LSI_OPTION_STRING:
    case LSI_OPTION_CHOICE:
    case LSI_OPTION_DTYPE:
    case LSI_OPTION_MODE:
    case LSI_OPTION_OUTPUT:
    case LSI_OPTION_LIST:
        return string(field);
    case LSI_OPTION_TEXTS:
        break;
    }
    assert(!"flags that may be repeated cannot be recorded");
    return NULL;
}

json_t *lsi_cli_flags_json(const lsi_command *command, const void *values)
{
    json_t *const all = json_object();
    for (size_t i = 0; i < command->n_options; i++) {
        const lsi_option *const row = &command->options[i];
        json_t *const value = value_of(row, values);
        if (json_is_null(value))
            continue;
        if (json_object_set_new(all, row->name, value) != 0) {
            json_decref(all);
            return NULL;
        }
    }
    return all;
}

json_t *lsi_cli_flags_chosen(const lsi_command *command, const void *given,
                             const void *used)
{
    json_t *const names = json_array();
    for (size_t i = 0; i < command->n_options; i++) {
        const lsi_option *const row = &command->options[i];
        json_t *const before = value_of(row, given);
        json_t *const after = value_of(row, used);
        if (!json_equal(before, after))
            (void)json_array_append_new(names, json_string(row->name));
        json_decref(before);
        json_decref(after);
    }
    return names;
}

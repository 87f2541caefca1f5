#include "input/text/read_json.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"

ls_status lsi_read_fail(const char *path, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return lsi_fail(LS_ERR_FORMAT, "'%s': %s", path, text);
}

ls_status lsi_read_refuse(const char *path, const char *field,
                          const json_t *type)
{
    const char *name = json_is_string(type) ? json_string_value(type) : NULL;
    if (name == NULL)
        return lsi_read_fail(path, "its %s has no \"type\"", field);
    return lsi_fail(
        LS_ERR_UNSUPPORTED,
        "'%s': its %s asks for \"%.60s\", which Lockstep does not support; "
        "docs/how-to/tokenizers.md lists the supported features",
        path, field, name);
}

ls_status lsi_read_bool(const char *path, const json_t *object,
                        const char *name, bool usual, bool *out)
{
    const json_t *const it = json_object_get(object, name);
    *out = usual;
    if (it == NULL || json_is_null(it))
        return LS_OK;
    if (!json_is_boolean(it))
        return lsi_read_fail(path, "\"%s\" is neither true nor false", name);
    *out = json_is_true(it);
    return LS_OK;
}

ls_status lsi_read_word(const char *path, const json_t *object,
                        const char *name, lsi_word *out)
{
    const json_t *const it = json_object_get(object, name);
    out->n = 0;
    if (it == NULL || json_is_null(it))
        return LS_OK;
    if (!json_is_string(it) || json_string_length(it) > sizeof out->at)
        return lsi_read_fail(path,
                             "\"%s\" is not a string of at most %zu bytes",
                             name, sizeof out->at);
    out->n = json_string_length(it);
    memcpy(out->at, json_string_value(it), out->n);
    return LS_OK;
}

bool lsi_read_is(const json_t *object, const char *type)
{
    const char *name = json_string_value(json_object_get(object, "type"));
    return name != NULL && strcmp(name, type) == 0;
}

size_t lsi_read_parts(const json_t *object, const char *list)
{
    if (object == NULL || json_is_null(object))
        return 0;
    return lsi_read_is(object, "Sequence")
               ? json_array_size(json_object_get(object, list))
               : 1;
}

const json_t *lsi_read_part(const json_t *object, const char *list,
                            size_t index)
{
    return lsi_read_is(object, "Sequence")
               ? json_array_get(json_object_get(object, list), index)
               : object;
}

lsi_text lsi_read_text(const json_t *string)
{
    const char *text = json_string_value(string);
    return (lsi_text){(const uint8_t *)text, json_string_length(string)};
}

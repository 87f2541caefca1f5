#include "base/json.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/utf8.h"

char *lsi_json_dumps(const json_t *json, size_t flags)
{
    const size_t bytes = json_dumpb(json, NULL, 0, flags);
    char *text = bytes > 0 ? malloc(bytes + 1) : NULL;
    if (text == NULL)
        return NULL;
    if (json_dumpb(json, text, bytes, flags) != bytes) {
        free(text);
        return NULL;
    }
    text[bytes] = '\0';
    return text;
}

/* With U+FFFD for what is not UTF-8; returns the bytes, at most 3 for each. */
static size_t replace(const char *text, size_t bytes, char *out)
{
    static const char replacement[] = "\xef\xbf\xbd";
    size_t used = 0;
    for (size_t at = 0; at < bytes;) {
        const int length =
            lsi_utf8_next((const uint8_t *)text + at, bytes - at);
        const size_t n = length > 0    ? (size_t)length
                         : length == 0 ? bytes - at
                                       : (size_t)-length;
        const size_t written = length > 0 ? n : sizeof(replacement) - 1;
        memcpy(out + used, length > 0 ? text + at : replacement, written);
        used += written;
        at += n;
    }
    return used;
}

json_t *lsi_json_text(const char *text, size_t bytes)
{
    json_t *json = json_stringn(text, bytes);
    char *const valid = json == NULL ? malloc(3 * bytes + 1) : NULL;
    if (valid != NULL)
        json = json_stringn(valid, replace(text, bytes, valid));
    free(valid);
    return json;
}

/*
 * Without memory, jansson may report a fault of the text or lose members. Two
 * readings that agree are right.
 */
ls_status lsi_json_loadb(const char *text, size_t bytes, size_t flags,
                         json_t **out, json_error_t *error)
{
    json_error_t again;
    json_t *const first = json_loadb(text, bytes, flags, error);
    json_t *const second = json_loadb(text, bytes, flags, &again);
    const bool wrong = first == NULL && second == NULL &&
                       error->text[0] != '\0' && again.text[0] != '\0';
    const bool same = first != NULL && json_equal(first, second) != 0;
    json_decref(second);
    if (same) {
        *out = first;
        return LS_OK;
    }
    json_decref(first);
    return wrong
               ? LS_ERR_FORMAT
               : lsi_fail(LS_ERR_MEMORY,
                          "not enough memory to read %zu bytes of JSON", bytes);
}

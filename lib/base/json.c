#include "base/json.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/error.h"

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

json_t *lsi_json_text(const char *text, size_t bytes)
{
    json_t *json = json_stringn(text, bytes);
    char *const plain = json == NULL ? malloc(bytes + 1) : NULL;
    for (size_t i = 0; plain != NULL && i < bytes; i++)
        plain[i] = (unsigned char)text[i] >= 0x80 ? '?' : text[i];
    if (plain != NULL)
        json = json_stringn(plain, bytes);
    free(plain);
    return json;
}

/* What is understood in the same way twice is understood. */
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
    return wrong ? LS_ERR_FORMAT
                 : lsi_fail(LS_ERR_MEMORY,
                            "no memory to read %zu bytes of JSON", bytes);
}

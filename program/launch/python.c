/* Error reports of Python programs; see python.h. */
#include "launch/python.h"

#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"

enum { ERROR_FILE_BYTES = 4 << 20 };

/* Copies the first line, without bytes that a terminal would interpret. */
static void copy_line(const char *line, size_t bytes, char *out, size_t room)
{
    size_t used = 0;
    for (; used < bytes && used + 1 < room && line[used] != '\n'; used++) {
        const unsigned char byte = (unsigned char)line[used];
        out[used] = byte < 0x20 || byte == 0x7f ? ' ' : line[used];
    }
    /* A character of several bytes is not cut. */
    if (used < bytes)
        while (used > 0 && ((unsigned char)line[used] & 0xc0) == 0x80)
            used--;
    out[used] = '\0';
}

ls_status lsi_python_error_parse(const char *text, size_t bytes, char *message,
                                 size_t room, json_t **json)
{
    json_error_t error;
    json_t *whole = NULL;
    const ls_status status = lsi_json_loadb(text, bytes, 0, &whole, &error);
    if (status != LS_OK)
        return status == LS_ERR_FORMAT
                   ? lsi_fail(LS_ERR_FORMAT,
                              "the Python error file is not valid JSON: %s",
                              error.text)
                   : status;
    const json_t *value = json_object_get(whole, "message");
    if (json_is_object(value))
        value = json_object_get(value, "message");
    if (!json_is_string(value)) {
        json_decref(whole);
        return lsi_fail(LS_ERR_FORMAT,
                        "the Python error file has no 'message' string");
    }
    copy_line(json_string_value(value), json_string_length(value), message,
              room);
    *json = whole;
    return LS_OK;
}

ls_status lsi_python_error_read(const char *path, char *message, size_t room,
                                json_t **json)
{
    char *text;
    size_t bytes;
    LS_TRY(lsi_read_regular(path, ERROR_FILE_BYTES, &text, &bytes));
    const ls_status status =
        lsi_python_error_parse(text, bytes, message, room, json);
    lsi_free(text);
    return status;
}

/* ---- tracebacks ------------------------------------------------------- */

static const char *find_last(const char *text, size_t bytes, const char *word)
{
    const size_t length = strlen(word);
    for (size_t i = bytes; i >= length; i--) {
        if (memcmp(text + i - length, word, length) == 0)
            return text + i - length;
    }
    return NULL;
}

/* The start of the next line, or the end of the text. */
static const char *next_line(const char *at, const char *end)
{
    const char *const line_end = memchr(at, '\n', (size_t)(end - at));
    return line_end == NULL ? end : line_end + 1;
}

bool lsi_python_last_line(const char *text, size_t bytes, char *message,
                          size_t room)
{
    static const char title[] = "Traceback (most recent call last):";
    const char *const end = text + bytes;
    const char *const found = find_last(text, bytes, title);
    if (found == NULL)
        return false;
    const char *const before =
        memrchr(text, '\n', (size_t)(found - text)); /* in its line */
    const char *const mark = before == NULL ? text : before + 1;
    const size_t length = (size_t)(found - mark);
    for (const char *line = next_line(found, end); line < end;
         line = next_line(line, end)) {
        const char *words = line;
        if ((size_t)(end - line) >= length && memcmp(line, mark, length) == 0)
            words += length;
        if (words == end || *words == ' ' || *words == '\n')
            continue;
        copy_line(words, (size_t)(end - words), message, room);
        return true;
    }
    return false;
}

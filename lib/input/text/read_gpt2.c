/* GPT-2's vocab.json and merges.txt as one tokenizer.json. */
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "input/text/read.h"

enum { MAX_BYTES = 1 << 28 };

static ls_status read_vocabulary(const char *path, json_t **out)
{
    char *text = NULL;
    size_t bytes;
    json_error_t error = {.line = 0};
    LS_TRY(lsi_read_regular(path, MAX_BYTES, &text, &bytes));
    const ls_status status =
        lsi_json_loadb(text, bytes, JSON_REJECT_DUPLICATES, out, &error);
    lsi_free(text);
    if (status == LS_ERR_FORMAT)
        return lsi_fail(LS_ERR_FORMAT, "'%s' is not JSON: line %d: %s", path,
                        error.line, error.text);
    LS_TRY(status);
    if (json_is_object(*out))
        return LS_OK;
    json_decref(*out);
    return lsi_read_fail(path, "it is not a JSON object");
}

/* A line each; the first may say the version. */
static ls_status split_merges(const char *path, char *text, json_t *list)
{
    size_t number = 0;
    char *line;
    while ((line = strsep(&text, "\n")) != NULL) {
        const size_t n = strlen(line);
        number++;
        if (n > 0 && line[n - 1] == '\r')
            line[n - 1] = '\0';
        if (line[0] == '\0' || strncmp(line, "#version", 8) == 0)
            continue;
        if (json_array_append_new(list, json_string(line)) != 0)
            return lsi_read_fail(path, "line %zu is not valid UTF-8", number);
    }
    return LS_OK;
}

static ls_status read_merges(const char *path, json_t **out)
{
    char *text = NULL;
    size_t bytes;
    LS_TRY(lsi_read_regular(path, MAX_BYTES, &text, &bytes));
    ls_status status = LS_OK;
    json_t *const list = json_array();
    if (list == NULL)
        status =
            lsi_fail(LS_ERR_MEMORY, "not enough memory to read '%s'", path);
    else if (strlen(text) != bytes)
        status =
            lsi_read_fail(path, "it contains a zero byte, so it is not text");
    if (status == LS_OK)
        status = split_merges(path, text, list);
    lsi_free(text);
    if (status != LS_OK)
        json_decref(list);
    else
        *out = list;
    return status;
}

ls_status lsi_read_gpt2(const char *vocabulary, const char *merges,
                        json_t **out)
{
    static const char end[] = "<|endoftext|>";
    json_t *vocab = NULL, *list = NULL;
    ls_status status = read_vocabulary(vocabulary, &vocab);
    if (status == LS_OK)
        status = read_merges(merges, &list);
    if (status != LS_OK) {
        json_decref(vocab);
        return status;
    }
    json_t *const added = json_array();
    const json_t *const id = json_object_get(vocab, end);
    if (json_is_integer(id))
        json_array_append_new(added,
                              lsi_read_special(end, json_integer_value(id)));
    return lsi_read_compose(vocab, list, added, LSI_SPLIT_GPT2, out);
}

/*
 * Recording a document.
 */
#include "report/document.h"

#include <stdarg.h>
#include <stdlib.h>

#include "base/error.h"
#include "report/document_private.h"

ls_status lsi_document_new(lsi_document **out, const char *title)
{
    lsi_document *const d = calloc(1, sizeof(*d));
    if (d != NULL) {
        d->title = strdup(title);
        d->blocks = json_array();
    }
    if (d == NULL || d->title == NULL || d->blocks == NULL) {
        lsi_document_free(&(lsi_document *){d});
        return lsi_fail(LS_ERR_MEMORY, "not enough memory for the report");
    }
    *out = d;
    return LS_OK;
}

void lsi_document_free(lsi_document **document)
{
    lsi_document *const d = *document;
    *document = NULL;
    if (d == NULL)
        return;
    free(d->title);
    json_decref(d->blocks);
    free(d);
}

/* Takes over the reference. Jansson refuses text that is not UTF-8. */
static void append(lsi_document *d, json_t *block)
{
    if (d->status != LS_OK)
        json_decref(block);
    else if (block == NULL || json_array_append_new(d->blocks, block) != 0)
        d->status =
            lsi_fail(LS_ERR_MEMORY, "cannot write the report: not enough "
                                    "memory, or a text is not valid UTF-8");
}

void lsi_document_text(lsi_document *document, const char *kind, int level,
                       const char *format, ...)
{
    va_list args;
    char *text = NULL;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        text = NULL;
    va_end(args);
    append(document, text != NULL ? json_pack("{s:s, s:i, s:s}", "kind", kind,
                                              "level", level, "text", text)
                                  : NULL);
    free(text);
}

void lsi_document_code(lsi_document *document, const char *text)
{
    append(document, json_pack("{s:s, s:s}", "kind", "code", "text", text));
}

void lsi_document_picture(lsi_document *document, const char *name,
                          const char *svg, const char *caption)
{
    append(document, json_pack("{s:s, s:s, s:s, s:s}", "kind", "picture",
                               "name", name, "svg", svg, "text", caption));
}

void lsi_document_table(lsi_document *document, const char *const *titles,
                        const bool *numbers, size_t n)
{
    json_t *const names = json_array(), *const right = json_array();
    for (size_t i = 0; i < n; i++) {
        json_array_append_new(names, json_string(titles[i]));
        json_array_append_new(right,
                              json_boolean(numbers != NULL && numbers[i]));
    }
    append(document, json_pack("{s:s, s:o, s:o, s:[]}", "kind", "table",
                               "titles", names, "right", right, "rows"));
}

void lsi_document_row(lsi_document *document, const char *const *cells,
                      size_t n)
{
    const size_t blocks = json_array_size(document->blocks);
    json_t *const table = json_array_get(document->blocks, blocks - 1);
    json_t *const row = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(row,
                              json_string(cells[i] != NULL ? cells[i] : ""));
    if (json_array_append_new(json_object_get(table, "rows"), row) != 0 &&
        document->status == LS_OK)
        document->status = lsi_fail(
            LS_ERR_STATE, "cannot add a row to a report before its table");
}

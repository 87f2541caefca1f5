/* The document structure, shared by document.c and the writers. */
#ifndef LS_REPORT_DOCUMENT_PRIVATE_H
#define LS_REPORT_DOCUMENT_PRIVATE_H

#include <jansson.h>
#include <string.h>

#include "report/document.h"

struct lsi_document {
    char *title;
    json_t *blocks; /* {"kind", "text", ...} in their order */
    ls_status status;
};

/* A text member of a block; "" if it is missing. */
static inline const char *lsi_block_text(const json_t *block, const char *key)
{
    const char *const text = json_string_value(json_object_get(block, key));
    return text != NULL ? text : "";
}

static inline bool lsi_block_is(const json_t *block, const char *kind)
{
    return strcmp(lsi_block_text(block, "kind"), kind) == 0;
}

#endif

/*
 * JSON from text and to text. For want of memory jansson (2.14) leaves out
 * bytes and says nothing, in both directions: what comes of it is well-formed,
 * and something else.
 */
#ifndef LS_BASE_JSON_H
#define LS_BASE_JSON_H

#include <jansson.h>
#include <stddef.h>

#include "lockstep/status.h"

/* As json_dumps: to be freed with free(); NULL without memory. */
char *lsi_json_dumps(const json_t *json, size_t flags);

/* A string. Bytes of the text that are not UTF-8 become U+FFFD. */
json_t *lsi_json_text(const char *text, size_t bytes);

/*
 * As json_loadb. LS_ERR_FORMAT if the text is not JSON: *error says why, and no
 * message is recorded. LS_ERR_MEMORY without memory to parse it.
 */
ls_status lsi_json_loadb(const char *text, size_t bytes, size_t flags,
                         json_t **out, json_error_t *error);

#endif

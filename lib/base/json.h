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

/* As json_dumps: to be freed with free(); NULL if there is no memory. */
char *lsi_json_dumps(const json_t *json, size_t flags);

/* A string. What is not UTF-8 in the text becomes U+FFFD. */
json_t *lsi_json_text(const char *text, size_t bytes);

/*
 * As json_loadb. LS_ERR_FORMAT if that is no JSON: *error says why, and no
 * message is recorded; LS_ERR_MEMORY if it cannot be told.
 */
ls_status lsi_json_loadb(const char *text, size_t bytes, size_t flags,
                         json_t **out, json_error_t *error);

#endif

/* Tokens that are looked for in text before it is divided into words. */
#ifndef LS_INPUT_TEXT_ADDED_H
#define LS_INPUT_TEXT_ADDED_H

#include <stdbool.h>

#include "input/text/buffers.h"

typedef struct lsi_added_token {
    uint32_t begin, n; /* its text in the pool */
    uint32_t id;
    uint8_t first_byte;
    bool strip_left, strip_right; /* takes adjacent white space */
} lsi_added_token;

typedef struct lsi_added {
    lsi_bytes pool;
    lsi_added_token *tokens; /* by their first byte, then the longest first */
    size_t n;
    uint32_t first[257]; /* where those of a first byte begin */
} lsi_added;

/* Room for n; freed by lsi_added_free, also after an error. */
ls_status lsi_added_new(lsi_added *added, size_t n);
void lsi_added_free(lsi_added *added);

/* To be followed by lsi_added_sort before anything is looked for. */
ls_status lsi_added_put(lsi_added *added, const lsi_added_token *token,
                        lsi_text text);
void lsi_added_sort(lsi_added *added);

lsi_text lsi_added_text(const lsi_added *added, size_t index);

/*
 * The first place from `at` on where one of them stands; of those that begin
 * there the longest. NULL if there is none. `classes` are of lsi_char_classes;
 * white space before `at` is not taken.
 */
const lsi_added_token *lsi_added_find(const lsi_added *added,
                                      const uint8_t *classes, lsi_text text,
                                      size_t at, size_t *begin, size_t *end);

#endif

/* Looking into the JSON of a tokenizer.json, with errors that name the file. */
#ifndef LS_INPUT_TEXT_READ_JSON_H
#define LS_INPUT_TEXT_READ_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "input/text/tokenizer.h"

/* LS_ERR_FORMAT: "'path': what". */
ls_status lsi_read_fail(const char *path, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * LS_ERR_UNSUPPORTED: names the feature that the file needs and Lockstep lacks.
 */
ls_status lsi_read_refuse(const char *path, const char *field,
                          const json_t *type);

/*
 * Members of an object that may be missing: then `usual`. A member of another
 * type is LS_ERR_FORMAT.
 */
ls_status lsi_read_bool(const char *path, const json_t *object,
                        const char *name, bool usual, bool *out);
ls_status lsi_read_word(const char *path, const json_t *object,
                        const char *name, lsi_word *out);

/* Whether the object's "type" is that. */
bool lsi_read_is(const json_t *object, const char *type);

/* The parts of a Sequence, or the object alone; none if it is null. */
size_t lsi_read_parts(const json_t *object, const char *list);
const json_t *lsi_read_part(const json_t *object, const char *list,
                            size_t index);

/* The UTF-8 of a string. */
lsi_text lsi_read_text(const json_t *string);

#endif

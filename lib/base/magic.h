/*
 * The kind of a file, by its first bytes: names and their endings do not count.
 */
#ifndef LS_BASE_MAGIC_H
#define LS_BASE_MAGIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lockstep/status.h"

typedef enum lsi_magic {
    LSI_MAGIC_NONE, /* no known kind: text, raw numbers, ... */
#define X(id, ...) LSI_MAGIC_##id,
#include "base/magics.def"
#undef X
} lsi_magic;

enum { LSI_MAGIC_BYTES = 512 };

/* Of a file that begins so; more than LSI_MAGIC_BYTES are not looked at. */
lsi_magic lsi_magic_of(const void *data, size_t bytes);

/* "a gzip file", and so on; "a file of an unknown kind" for LSI_MAGIC_NONE. */
const char *lsi_magic_name(lsi_magic magic);

/* Whether it packs one other file. */
bool lsi_magic_is_packed(lsi_magic magic);

/* Whether a name ends so, if one takes no notice of how the file is packed. */
bool lsi_has_extension(const char *path, const char *extension);

/* Looks at a regular file. */
ls_status lsi_magic_of_file(const char *path, lsi_magic *out);

#endif

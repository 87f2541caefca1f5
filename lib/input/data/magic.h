/*
 * What a file is, by its first bytes: names and their endings are not asked.
 */
#ifndef LS_INPUT_DATA_MAGIC_H
#define LS_INPUT_DATA_MAGIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lockstep/status.h"

typedef enum lsi_magic {
    LSI_MAGIC_NONE, /* nothing that is known here: text, raw numbers, ... */
    LSI_MAGIC_GZIP,
    LSI_MAGIC_ZSTD,
    LSI_MAGIC_XZ,
    LSI_MAGIC_BZIP2,
    LSI_MAGIC_ZIP,
    LSI_MAGIC_TAR,
    LSI_MAGIC_NPY,
    LSI_MAGIC_SAFETENSORS,
    LSI_MAGIC_PARQUET,
    LSI_MAGIC_HDF5,
    LSI_MAGIC_PICKLE,
    LSI_MAGIC_PNG,
    LSI_MAGIC_JPEG,
    LSI_MAGIC_GIF,
    LSI_MAGIC_WEBP,
    LSI_MAGIC_BMP,
    LSI_MAGIC_TIFF,
    LSI_MAGIC_IDX,
    LSI_MAGIC_LLMC,
} lsi_magic;

enum { LSI_MAGIC_BYTES = 512 };

/* Of a file that begins so; more than LSI_MAGIC_BYTES are not looked at. */
lsi_magic lsi_magic_of(const void *data, size_t bytes);

/* "a gzip file", and so on; "a file of no known kind" for LSI_MAGIC_NONE. */
const char *lsi_magic_name(lsi_magic magic);

/* Whether it packs one other file. */
bool lsi_magic_is_packed(lsi_magic magic);

/* Looks at a regular file. */
ls_status lsi_magic_of_file(const char *path, lsi_magic *out);

#endif

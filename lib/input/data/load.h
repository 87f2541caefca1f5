/* Whole files as bytes, unpacked where they are packed. */
#ifndef LS_INPUT_DATA_LOAD_H
#define LS_INPUT_DATA_LOAD_H

#include "input/data/dataset.h"
#include "input/data/magic.h"

/*
 * Maps a file, or unpacks one that is packed by gzip, or, with libarchive, by
 * zstd, xz or bzip2, into memory. A file that holds nothing is LS_ERR_FORMAT.
 */
ls_status lsi_records_load(lsi_records *out, const char *path);

/* What a file is, or what is packed in it. */
ls_status lsi_magic_inside(const char *path, lsi_magic *out);

#endif

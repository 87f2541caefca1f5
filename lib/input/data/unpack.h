/*
 * Packed files as streams of unpacked bytes, or as a whole. A stream ends
 * without an error only if the whole packed file is sound: every checksum that
 * the format has is compared, and only zeros may follow the last member.
 */
#ifndef LS_INPUT_DATA_UNPACK_H
#define LS_INPUT_DATA_UNPACK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/magic.h"
#include "input/data/dataset.h"

typedef struct lsi_unpacker {
    const lsi_records *packed; /* must outlive the stream */
    const char *path;          /* for messages; must outlive the stream */
    uint64_t done;             /* bytes unpacked so far */
    bool ended;
    void *state;
    ls_status (*read)(struct lsi_unpacker *u, uint8_t *to, size_t room,
                      size_t *got);
    void (*free)(void *state);
} lsi_unpacker;

/*
 * Opens a stream over a file whose first bytes are those of gzip, zstd, xz or
 * bzip2. LS_ERR_UNSUPPORTED for the last three in a build without libarchive.
 */
ls_status lsi_unpacker_open(lsi_unpacker *out, const lsi_records *packed,
                            const char *path);

/*
 * Writes the next `room` bytes to `to`. *got is less than `room` only at the
 * end of the stream. LS_ERR_FORMAT names the file and the offset of the damage.
 */
ls_status lsi_unpacker_read(lsi_unpacker *u, uint8_t *to, size_t room,
                            size_t *got);
void lsi_unpacker_close(lsi_unpacker *u);

/* The two kinds of streams that lsi_unpacker_open chooses from. */
ls_status lsi_gzip_open(lsi_unpacker *out);
ls_status lsi_archive_open(lsi_unpacker *out);

/*
 * Checks the bytes after the last member of a packed file, from offset `at` on.
 * LS_ERR_FORMAT unless all of it is zeros.
 */
ls_status lsi_unpacker_check_rest(const lsi_unpacker *u, size_t at);

/* LS_ERR_MEMORY */
ls_status lsi_unpack_no_memory(const char *path);

/*
 * Maps a file, or unpacks one that is packed by gzip, or, with libarchive, by
 * zstd, xz or bzip2, into memory. A file that holds nothing is LS_ERR_FORMAT.
 */
ls_status lsi_records_load(lsi_records *out, const char *path);

/* The kind of a file, or of the file that is packed in it. */
ls_status lsi_unpack_magic(const char *path, lsi_magic *out);

#endif

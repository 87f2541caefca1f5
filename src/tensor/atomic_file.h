/*
 * A file that appears all at once: written beside its place under another
 * name, synced, then renamed. Whoever reads the path sees the old file or the
 * whole new one, also after a crash.
 */
#ifndef LS_TENSOR_ATOMIC_FILE_H
#define LS_TENSOR_ATOMIC_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "lockstep/status.h"

/* How many bytes a file has, and their CRC-32 (that of zlib). */
typedef struct lsi_file_sum {
    uint64_t bytes;
    uint32_t crc32;
} lsi_file_sum;

/* LS_ERR_IO if the file cannot be read. */
ls_status lsi_file_sum_of(const char *path, lsi_file_sum *sum);

/* Whatever a folder's entries are is on the disk afterwards. */
ls_status lsi_sync_folder(const char *path);

typedef struct lsi_atomic_file {
    int fd;
    lsi_file_sum sum; /* of what has been written */
    char *path;       /* where it will appear; symbolic links followed */
    char *temporary;  /* where it is now */
} lsi_atomic_file;

/* On success it must be ended by either of the last two functions. */
ls_status lsi_atomic_file_open(lsi_atomic_file *file, const char *path);
ls_status lsi_atomic_file_write(lsi_atomic_file *file, const void *data,
                                size_t bytes);

/* Makes it appear. After a failure the path is as it was. */
ls_status lsi_atomic_file_commit(lsi_atomic_file *file);

/* Leaves no trace of it. */
void lsi_atomic_file_abandon(lsi_atomic_file *file);

#endif

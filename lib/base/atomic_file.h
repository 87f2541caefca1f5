/*
 * A file that appears all at once: written next to its place under another
 * name, synced, then renamed. A reader of the path sees the old file or the
 * whole new one, also after a crash.
 *
 * The other name is that of the file with ".tmp-" and 16 random digits. Its
 * writer holds a kernel lock on it while it lives. So the next writer to the
 * same path knows remains of a killed one, and removes them. Without locks in
 * the file system they stay.
 *
 * The new file gets the permissions of the old one, and its owner and group
 * where allowed. No user can read the new file who could not read the old one.
 */
#ifndef LS_BASE_ATOMIC_FILE_H
#define LS_BASE_ATOMIC_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "lockstep/status.h"

/* The size of a file in bytes, and its CRC-32 (as in zlib). */
typedef struct lsi_file_sum {
    uint64_t bytes;
    uint32_t crc32;
} lsi_file_sum;

/*
 * Of the bytes that it has when it is opened. LS_ERR_IO if it cannot be read or
 * is not a regular file.
 */
ls_status lsi_file_sum_of(const char *path, lsi_file_sum *sum);

/* Whatever a folder's entries are is on the disk afterwards. */
ls_status lsi_sync_folder(const char *path);

typedef struct lsi_atomic_file {
    int fd;
    lsi_file_sum sum; /* of what has been written */
    char *path;       /* where it will appear; symbolic links followed */
    char *temporary;  /* where it is now */
    bool replaces;    /* a file of these permissions */
    mode_t mode;
    uid_t owner;
    gid_t group;
} lsi_atomic_file;

/* On success it must be ended by either of the last two functions. */
ls_status lsi_atomic_file_open(lsi_atomic_file *file, const char *path);
ls_status lsi_atomic_file_write(lsi_atomic_file *file, const void *data,
                                size_t bytes);

/*
 * Makes it appear. After a failure the path is as it was; or it has the whole
 * new file already, if only its folder could not be synced.
 */
ls_status lsi_atomic_file_commit(lsi_atomic_file *file);

/* Leaves no trace of it. */
void lsi_atomic_file_abandon(lsi_atomic_file *file);

/* Opens, writes and commits such a file of `bytes` bytes. */
ls_status lsi_atomic_file_put(const char *path, const void *data, size_t bytes);

/*
 * The suffix of the name of a temporary file (".tmp-" and digits); NULL if the
 * name has none.
 */
const char *lsi_temporary_end(const char *name);

#endif

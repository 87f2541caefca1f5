/*
 * Files that somebody else names: read only if they are regular files, so that
 * a device is not read without end and a FIFO not waited for; locked by the
 * kernel, which knows when a holder has died; followed to where they lie.
 */
#ifndef LS_BASE_FILE_H
#define LS_BASE_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lockstep/status.h"

/* Fails with `status`: the path has PATH_MAX bytes or more. */
ls_status lsi_fail_path_too_long(ls_status status, const char *path);

/*
 * Opens a regular file of at most `limit` bytes (0: of any size) to read it.
 * LS_ERR_IO if it cannot be opened or is something else, LS_ERR_FORMAT if it
 * has more. *fd is the caller's; *bytes is its size now.
 */
ls_status lsi_open_regular(const char *path, uint64_t limit, int *fd,
                           uint64_t *bytes);

/* Reads until there are `most` bytes or the file ends; *bytes is how many. */
ls_status lsi_read_up_to(int fd, const char *path, void *out, size_t most,
                         size_t *bytes);

/*
 * All of such a file, with a zero behind it; *out is the caller's (lsi_free).
 * *bytes is how many were read.
 */
ls_status lsi_read_regular(const char *path, uint64_t limit, char **out,
                           size_t *bytes);

/*
 * Where the bytes of a file of that name lie: the end of its chain of symbolic
 * links, also if nothing is there yet.
 */
ls_status lsi_resolve_links(const char *path, char out[PATH_MAX]);

/*
 * Creates a folder and its missing parents, with the permissions that the umask
 * leaves. Other processes may do the same at the same time. False (errno) if
 * the folder does not exist then.
 */
bool lsi_make_folders(const char *path);

/* As lsi_make_folders; LS_ERR_IO names the folder. */
ls_status lsi_need_folders(const char *path);

/*
 * Creates the missing folders above `path`, a file or folder that is about to
 * be written. Call it for outputs only, before the work begins. LS_ERR_IO (and
 * errno) names the folder and `path`.
 */
ls_status lsi_make_parents(const char *path);

typedef enum lsi_file_lock {
    LSI_FILE_LOCKED,    /* by this descriptor, until all copies are closed */
    LSI_FILE_IS_LOCKED, /* by another */
    LSI_FILE_NO_LOCKS,  /* the file system has none, or they fail */
} lsi_file_lock;

/* Locks an open file against everybody else's lock; does not wait. */
lsi_file_lock lsi_lock_file(int fd);

#endif

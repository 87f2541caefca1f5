/* Files that appear all at once; see atomic_file.h. */
#include "tensor/atomic_file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

/* Renaming over a device or a folder would destroy it, or fail late. */
static ls_status check_place(const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0) {
        if (errno == ENOENT)
            return LS_OK;
        return lsi_fail_errno(LS_ERR_IO, "cannot write '%s'", path);
    }
    if (S_ISREG(info.st_mode))
        return LS_OK;
    return lsi_fail(LS_ERR_IO, "cannot write '%s': it is no regular file",
                    path);
}

static ls_status set_names(lsi_atomic_file *file, const char *path)
{
    static atomic_uint counter;
    file->path = realpath(path, NULL);
    if (file->path == NULL)
        file->path = strdup(path);
    if (file->path == NULL ||
        asprintf(&file->temporary, "%s.tmp-%ld-%u", file->path, (long)getpid(),
                 atomic_fetch_add(&counter, 1)) < 0) {
        free(file->path);
        return lsi_fail(LS_ERR_MEMORY, "no memory for the name of '%s'", path);
    }
    return LS_OK;
}

static void free_names(lsi_atomic_file *file)
{
    free(file->temporary);
    free(file->path);
    *file = (lsi_atomic_file){.fd = -1};
}

ls_status lsi_atomic_file_open(lsi_atomic_file *file, const char *path)
{
    LS_TRY(check_place(path));
    LS_TRY(set_names(file, path));
    file->fd =
        open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file->fd >= 0)
        return LS_OK;
    const ls_status status =
        lsi_fail_errno(LS_ERR_IO, "cannot write '%s'", path);
    free_names(file);
    return status;
}

ls_status lsi_atomic_file_write(const lsi_atomic_file *file, const void *data,
                                size_t bytes)
{
    const char *next = data;
    while (bytes > 0) {
        const ssize_t written = write(file->fd, next, bytes);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return lsi_fail_errno(LS_ERR_IO, "cannot write '%s'", file->path);
        next += written;
        bytes -= (size_t)written;
    }
    return LS_OK;
}

/* Some file systems cannot sync folders and say EINVAL: nothing is lost. */
static ls_status sync_folder(const lsi_atomic_file *file)
{
    char *copy = strdup(file->path);
    if (copy == NULL)
        return lsi_fail(LS_ERR_MEMORY, "no memory to sync the folder of '%s'",
                        file->path);
    const int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(copy);
    const bool failed = fd < 0 || (fsync(fd) != 0 && errno != EINVAL);
    const ls_status status =
        failed ? lsi_fail_errno(LS_ERR_IO, "cannot sync the folder of '%s'",
                                file->path)
               : LS_OK;
    if (fd >= 0)
        close(fd);
    return status;
}

static ls_status put_in_place(lsi_atomic_file *file)
{
    const int fd = file->fd;
    file->fd = -1;
    const bool synced = fsync(fd) == 0;
    if (!synced) {
        const ls_status status =
            lsi_fail_errno(LS_ERR_IO, "cannot sync '%s'", file->path);
        close(fd);
        return status;
    }
    if (close(fd) != 0 || rename(file->temporary, file->path) != 0)
        return lsi_fail_errno(LS_ERR_IO, "cannot write '%s'", file->path);
    return LS_OK;
}

ls_status lsi_atomic_file_commit(lsi_atomic_file *file)
{
    ls_status status = put_in_place(file);
    if (status != LS_OK) {
        lsi_atomic_file_abandon(file);
        return status;
    }
    status = sync_folder(file);
    free_names(file);
    return status;
}

void lsi_atomic_file_abandon(lsi_atomic_file *file)
{
    if (file->fd >= 0)
        close(file->fd);
    unlink(file->temporary);
    free_names(file);
}

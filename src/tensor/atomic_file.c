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

#include <zlib.h>

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
    file->sum = (lsi_file_sum){0};
    file->fd =
        open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file->fd >= 0)
        return LS_OK;
    const ls_status status =
        lsi_fail_errno(LS_ERR_IO, "cannot write '%s'", path);
    free_names(file);
    return status;
}

static void sum_add(lsi_file_sum *sum, const void *data, size_t bytes)
{
    sum->crc32 = (uint32_t)crc32_z(sum->crc32, data, bytes);
    sum->bytes += bytes;
}

ls_status lsi_atomic_file_write(lsi_atomic_file *file, const void *data,
                                size_t bytes)
{
    const char *next = data;
    while (bytes > 0) {
        const ssize_t written = write(file->fd, next, bytes);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return lsi_fail_errno(LS_ERR_IO, "cannot write '%s'", file->path);
        sum_add(&file->sum, next, (size_t)written);
        next += written;
        bytes -= (size_t)written;
    }
    return LS_OK;
}

/* Some file systems cannot sync folders and say EINVAL: nothing is lost. */
ls_status lsi_sync_folder(const char *path)
{
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool failed = fd < 0 || (fsync(fd) != 0 && errno != EINVAL);
    const ls_status status =
        failed ? lsi_fail_errno(LS_ERR_IO, "cannot sync the folder '%s'", path)
               : LS_OK;
    if (fd >= 0)
        close(fd);
    return status;
}

static ls_status sync_folder_of(const lsi_atomic_file *file)
{
    char *copy = strdup(file->path);
    if (copy == NULL)
        return lsi_fail(LS_ERR_MEMORY, "no memory to sync the folder of '%s'",
                        file->path);
    const ls_status status = lsi_sync_folder(dirname(copy));
    free(copy);
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
    status = sync_folder_of(file);
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

/* ---- reading ------------------------------------------------------------- */

static ls_status sum_descriptor(int fd, const char *path, lsi_file_sum *sum)
{
    enum { CHUNK = 1 << 16 };
    char buffer[CHUNK];
    for (;;) {
        const ssize_t got = read(fd, buffer, sizeof buffer);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return lsi_fail_errno(LS_ERR_IO, "cannot read '%s'", path);
        if (got == 0)
            return LS_OK;
        sum_add(sum, buffer, (size_t)got);
    }
}

ls_status lsi_file_sum_of(const char *path, lsi_file_sum *sum)
{
    lsi_file_sum result = {0};
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return lsi_fail_errno(LS_ERR_IO, "cannot read '%s'", path);
    const ls_status status = sum_descriptor(fd, path, &result);
    close(fd);
    if (status == LS_OK)
        *sum = result;
    return status;
}

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"

ls_status lsi_fail_path_too_long(ls_status status, const char *path)
{
    return lsi_fail(status,
                    "the path '%.64s...' is too long; the limit is %d bytes",
                    path, PATH_MAX - 1);
}

/* ---- reading ------------------------------------------------------------- */

static const char *kind_of(mode_t mode)
{
    if (S_ISDIR(mode))
        return "a folder";
    if (S_ISFIFO(mode))
        return "a FIFO";
    return S_ISSOCK(mode) ? "a socket" : "a device";
}

static ls_status check(int fd, const char *path, uint64_t limit,
                       uint64_t *bytes)
{
    struct stat info;
    if (fstat(fd, &info) != 0)
        return lsi_fail_errno(LS_ERR_IO, "cannot examine '%s'", path);
    if (!S_ISREG(info.st_mode))
        return lsi_fail(LS_ERR_IO, "'%s' is %s, not a regular file", path,
                        kind_of(info.st_mode));
    *bytes = (uint64_t)info.st_size;
    if (limit == 0 || *bytes <= limit)
        return LS_OK;
    return lsi_fail(
        LS_ERR_FORMAT,
        "'%s' has %llu bytes; a file of this kind can have at most %llu bytes",
        path, (unsigned long long)*bytes, (unsigned long long)limit);
}

ls_status lsi_open_regular(const char *path, uint64_t limit, int *fd,
                           uint64_t *bytes)
{
    /* To open a FIFO would wait for its writer. */
    const int opened = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (opened < 0)
        return lsi_fail_errno(LS_ERR_IO, "cannot open '%s'", path);
    const ls_status status = check(opened, path, limit, bytes);
    if (status != LS_OK) {
        close(opened);
        return status;
    }
    *fd = opened;
    return LS_OK;
}

ls_status lsi_read_up_to(int fd, const char *path, void *out, size_t most,
                         size_t *bytes)
{
    size_t done = 0;
    while (done < most) {
        const ssize_t got = read(fd, (char *)out + done, most - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return lsi_fail_errno(LS_ERR_IO, "cannot read '%s'", path);
        if (got == 0)
            break;
        done += (size_t)got;
    }
    *bytes = done;
    return LS_OK;
}

ls_status lsi_read_regular(const char *path, uint64_t limit, char **out,
                           size_t *bytes)
{
    int fd;
    uint64_t size;
    void *block = NULL;
    LS_TRY(lsi_open_regular(path, limit, &fd, &size));
    ls_status status = lsi_alloc(&block, size + 1, LS_MEMORY_OTHER, path);
    if (status == LS_OK)
        status = lsi_read_up_to(fd, path, block, size, bytes);
    close(fd);
    if (status != LS_OK) {
        lsi_free(block);
        return status;
    }
    *out = block;
    (*out)[*bytes] = '\0';
    return LS_OK;
}

/* ---- links --------------------------------------------------------------- */

/* Whether `path` is a link; then it becomes what the link names. */
static bool follow(char path[PATH_MAX])
{
    char target[PATH_MAX], around[PATH_MAX], joined[2 * PATH_MAX];
    const ssize_t length = readlink(path, target, sizeof target - 1);
    if (length < 0)
        return false;
    target[length] = '\0';
    memcpy(around, path, sizeof around);
    const int joint =
        target[0] == '/'
            ? snprintf(joined, sizeof joined, "%s", target)
            : snprintf(joined, sizeof joined, "%s/%s", dirname(around), target);
    if (joint >= PATH_MAX)
        return false;
    memcpy(path, joined, (size_t)joint + 1);
    return true;
}

ls_status lsi_resolve_links(const char *path, char out[PATH_MAX])
{
    enum { MOST_LINKS = 40 };
    if (realpath(path, out) != NULL)
        return LS_OK;
    if (errno != ENOENT)
        return lsi_fail_errno(LS_ERR_IO, "cannot resolve the path '%s'", path);
    if (snprintf(out, PATH_MAX, "%s", path) >= PATH_MAX)
        return lsi_fail_path_too_long(LS_ERR_IO, path);
    for (int links = 0; links < MOST_LINKS && follow(out); links++)
        continue;
    return LS_OK;
}

/* ---- locks --------------------------------------------------------------- */

lsi_file_lock lsi_lock_file(int fd)
{
    int result;
    do
        result = flock(fd, LOCK_EX | LOCK_NB);
    while (result != 0 && errno == EINTR);
    if (result == 0)
        return LSI_FILE_LOCKED;
    return errno == EWOULDBLOCK || errno == EACCES ? LSI_FILE_IS_LOCKED
                                                   : LSI_FILE_NO_LOCKS;
}

/* ---- folders ------------------------------------------------------------- */

/* Best effort: the name of a new folder survives a power cut. */
static void sync_around(const char *path)
{
    char around[PATH_MAX];
    snprintf(around, sizeof(around), "%s", path);
    const int fd = open(dirname(around), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    (void)fsync(fd);
    close(fd);
}

/*
 * An existing folder is not an error, even if another process made it. The
 * error of mkdir differs where nothing may be written, or where a server
 * must be asked first.
 */
static bool make_folder(const char *path)
{
    struct stat info;
    if (mkdir(path, 0777) == 0) {
        sync_around(path);
        return true;
    }
    const int error = errno;
    if (stat(path, &info) == 0) {
        errno = ENOTDIR;
        return S_ISDIR(info.st_mode);
    }
    errno = error;
    return false;
}

bool lsi_make_folders(const char *path)
{
    char name[PATH_MAX];
    if (snprintf(name, sizeof(name), "%s", path) >= (int)sizeof(name)) {
        errno = ENAMETOOLONG;
        return false;
    }
    for (char *at = name + 1; name[0] != '\0' && *at != '\0'; at++) {
        if (*at != '/')
            continue;
        *at = '\0';
        if (!make_folder(name))
            return false;
        *at = '/';
    }
    return make_folder(name);
}

ls_status lsi_need_folders(const char *path)
{
    if (path[0] == '\0')
        return lsi_fail(LS_ERR_IO, "cannot create a folder: its name is empty");
    if (lsi_make_folders(path))
        return LS_OK;
    return lsi_fail_errno(LS_ERR_IO, "cannot create the folder '%s'", path);
}

ls_status lsi_make_parents(const char *path)
{
    char around[PATH_MAX];
    if (snprintf(around, sizeof(around), "%s", path) >= (int)sizeof(around)) {
        errno = ENAMETOOLONG;
        return lsi_fail_path_too_long(LS_ERR_IO, path);
    }
    const char *const folder = dirname(around);
    if (access(folder, F_OK) == 0 || lsi_make_folders(folder))
        return LS_OK;
    const int error = errno;
    const ls_status status = lsi_fail_errno(
        LS_ERR_IO, "cannot write '%s': cannot create the folder '%s'", path,
        folder);
    errno = error;
    return status;
}

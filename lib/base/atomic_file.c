/* Files that appear all at once; see atomic_file.h. */
#include "base/atomic_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <zlib.h>

#include "base/error.h"
#include "base/file.h"

/* ---- names --------------------------------------------------------------- */

#define TEMPORARY ".tmp-"

enum { DIGITS = 16 };

const char *lsi_temporary_end(const char *name)
{
    const size_t length = strlen(name), end = strlen(TEMPORARY) + DIGITS;
    if (length <= end)
        return NULL;
    const char *const from = name + length - end;
    if (strncmp(from, TEMPORARY, strlen(TEMPORARY)) != 0 ||
        strspn(from + strlen(TEMPORARY), "0123456789abcdef") != DIGITS)
        return NULL;
    return from;
}

/* Process ids repeat: in each new container the first is 1. */
static uint64_t random_number(void)
{
    uint64_t number;
    struct timespec now;
    if (getrandom(&number, sizeof number, GRND_NONBLOCK) == sizeof number)
        return number;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_nsec << 32 ^ (uint64_t)now.tv_sec ^
           (uint64_t)getpid() << 16;
}

static void set_temporary(lsi_atomic_file *file)
{
    snprintf(file->temporary, strlen(file->path) + sizeof(TEMPORARY) + DIGITS,
             "%s" TEMPORARY "%0*" PRIx64, file->path, DIGITS, random_number());
}

static ls_status set_names(lsi_atomic_file *file, const char *path)
{
    char target[PATH_MAX];
    LS_TRY(lsi_resolve_links(path, target));
    file->path = strdup(target);
    file->temporary = malloc(strlen(target) + sizeof(TEMPORARY) + DIGITS);
    if (file->path != NULL && file->temporary != NULL)
        return LS_OK;
    return lsi_fail(LS_ERR_MEMORY, "not enough memory to write '%s'", path);
}

static void free_names(lsi_atomic_file *file)
{
    free(file->temporary);
    free(file->path);
    *file = (lsi_atomic_file){.fd = -1};
}

/* ---- what kills have left ------------------------------------------------ */

/*
 * Removes a temporary file whose writer is dead: nobody holds its lock, and the
 * name still belongs to that file.
 */
static void remove_if_dead(int folder, const char *name)
{
    struct stat open_file, named;
    const int fd =
        openat(folder, name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return;
    if (fstat(fd, &open_file) == 0 && S_ISREG(open_file.st_mode) &&
        lsi_lock_file(fd) == LSI_FILE_LOCKED &&
        fstatat(folder, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
        named.st_dev == open_file.st_dev && named.st_ino == open_file.st_ino)
        (void)unlinkat(folder, name, 0);
    close(fd);
}

/*
 * Removes the temporary files of dead writers. Errors are ignored: such files
 * only cost space.
 */
static void sweep(const lsi_atomic_file *file)
{
    char around[PATH_MAX], own[PATH_MAX];
    snprintf(around, sizeof around, "%s", file->path);
    snprintf(own, sizeof own, "%s", file->path);
    const char *const base = basename(own);
    const size_t length = strlen(base);
    DIR *dir = opendir(dirname(around));
    if (dir == NULL)
        return;
    for (const struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
        const char *const end = lsi_temporary_end(e->d_name);
        if (end == e->d_name + length && strncmp(e->d_name, base, length) == 0)
            remove_if_dead(dirfd(dir), e->d_name);
    }
    closedir(dir);
}

/* ---- writing ------------------------------------------------------------- */

/* Renaming over a device or a folder would destroy it, or fail late. */
static ls_status check_place(lsi_atomic_file *file, const char *path)
{
    struct stat info;
    *file = (lsi_atomic_file){.fd = -1};
    if (stat(path, &info) != 0) {
        if (errno == ENOENT)
            return LS_OK;
        return lsi_fail_errno(LS_ERR_IO, "cannot write '%s'", path);
    }
    if (!S_ISREG(info.st_mode))
        return lsi_fail(LS_ERR_IO,
                        "cannot write '%s': it is not a regular file", path);
    file->replaces = true;
    file->mode = info.st_mode & 0777;
    file->owner = info.st_uid;
    file->group = info.st_gid;
    return LS_OK;
}

/*
 * Locks the new file. False if another process has swept it before the lock, as
 * it looks like that of a dead writer.
 */
static bool hold(int fd)
{
    struct stat info;
    const lsi_file_lock lock = lsi_lock_file(fd);
    if (lock == LSI_FILE_NO_LOCKS)
        return true;
    return lock == LSI_FILE_LOCKED && fstat(fd, &info) == 0 &&
           info.st_nlink > 0;
}

static ls_status create(lsi_atomic_file *file, const char *path)
{
    enum { TRIES = 100 };
    for (int i = 0; i < TRIES; i++) {
        set_temporary(file);
        const int fd =
            open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                 file->replaces ? 0600 : 0666);
        if (fd < 0 && errno != EEXIST)
            break;
        if (fd >= 0 && hold(fd)) {
            file->fd = fd;
            return LS_OK;
        }
        if (fd >= 0)
            close(fd);
    }
    return lsi_fail_errno(LS_ERR_IO, "cannot write '%s'", path);
}

ls_status lsi_atomic_file_open(lsi_atomic_file *file, const char *path)
{
    LS_TRY(check_place(file, path));
    ls_status status = set_names(file, path);
    if (status == LS_OK) {
        sweep(file);
        status = create(file, path);
    }
    if (status != LS_OK)
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
        return lsi_fail(LS_ERR_MEMORY,
                        "not enough memory to sync the folder of '%s'",
                        file->path);
    const ls_status status = lsi_sync_folder(dirname(copy));
    free(copy);
    return status;
}

static bool give(int fd, uid_t owner, gid_t group)
{
    return fchown(fd, owner, group) == 0;
}

/*
 * If the group cannot be kept, the new group gets the permissions of all
 * others. If the owner cannot be kept, the file belongs to the user of the
 * process, like any new file.
 */
static void keep_access(const lsi_atomic_file *file)
{
    struct stat info;
    mode_t mode = file->mode;
    if (!file->replaces || fstat(file->fd, &info) != 0)
        return;
    if (info.st_gid != file->group && !give(file->fd, (uid_t)-1, file->group))
        mode &= ~(mode_t)070 | (mode & 07) << 3;
    if (info.st_uid != file->owner)
        (void)give(file->fd, file->owner, (gid_t)-1);
    (void)fchmod(file->fd, mode);
}

/* Closing the descriptor drops the lock, so it is closed after the rename. */
static ls_status put_in_place(lsi_atomic_file *file)
{
    keep_access(file);
    if (fsync(file->fd) != 0)
        return lsi_fail_errno(LS_ERR_IO, "cannot sync '%s'", file->path);
    if (rename(file->temporary, file->path) != 0)
        return lsi_fail_errno(LS_ERR_IO, "cannot write '%s'", file->path);
    close(file->fd);
    file->fd = -1;
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

ls_status lsi_atomic_file_put(const char *path, const void *data, size_t bytes)
{
    lsi_atomic_file file;
    LS_TRY(lsi_atomic_file_open(&file, path));
    const ls_status status = lsi_atomic_file_write(&file, data, bytes);
    if (status == LS_OK)
        return lsi_atomic_file_commit(&file);
    lsi_atomic_file_abandon(&file);
    return status;
}

/* ---- reading ------------------------------------------------------------- */

static ls_status sum_descriptor(int fd, const char *path, uint64_t most,
                                lsi_file_sum *sum)
{
    enum { CHUNK = 1 << 16 };
    char buffer[CHUNK];
    while (sum->bytes < most) {
        const uint64_t left = most - sum->bytes;
        size_t got;
        LS_TRY(lsi_read_up_to(fd, path, buffer, left < CHUNK ? left : CHUNK,
                              &got));
        if (got == 0)
            break;
        sum_add(sum, buffer, got);
    }
    return LS_OK;
}

ls_status lsi_file_sum_of(const char *path, lsi_file_sum *sum)
{
    int fd;
    uint64_t bytes;
    lsi_file_sum result = {0};
    LS_TRY(lsi_open_regular(path, 0, &fd, &bytes));
    const ls_status status = sum_descriptor(fd, path, bytes, &result);
    close(fd);
    if (status == LS_OK)
        *sum = result;
    return status;
}

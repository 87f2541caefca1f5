/* Writes files so that a reader never sees a partial one. */
#include "report/result.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"

/* Fails with the message of errno. */
static ls_status cannot_write(const char *path)
{
    return lsi_result_is_stdout(path)
               ? lsi_fail_errno(LS_ERR_IO, "cannot write to standard output")
               : lsi_fail_errno(LS_ERR_IO, "cannot write '%s'", path);
}

bool lsi_result_is_stdout(const char *path)
{
    return path != NULL && strcmp(path, "-") == 0;
}

static bool write_bytes(int fd, const char *data, size_t bytes)
{
    while (bytes > 0) {
        const ssize_t written = write(fd, data, bytes);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return false;
        data += written;
        bytes -= (size_t)written;
    }
    return true;
}

ls_status lsi_write_all(int fd, const char *data, size_t bytes,
                        const char *what)
{
    return write_bytes(fd, data, bytes)
               ? LS_OK
               : lsi_fail_errno(LS_ERR_IO, "cannot write %s", what);
}

ls_status lsi_write_to_file(int fd, const char *data, size_t bytes,
                            const char *path)
{
    return write_bytes(fd, data, bytes) ? LS_OK : cannot_write(path);
}

/* An existing file that cannot be replaced by a rename, such as a pipe. */
static bool is_special(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && !S_ISREG(info.st_mode);
}

enum { MOST_TRIES = 1000 };

/* A different name next to `path` on each call; false: it is too long. */
static bool name_beside(const char *path, char temporary[PATH_MAX])
{
    static _Atomic unsigned number;
    const uint64_t unique =
        lsi_clock_ns() ^ (uint64_t)getpid() << 40 ^ number++;
    const int length = snprintf(temporary, PATH_MAX, "%s.%08" PRIx32, path,
                                (uint32_t)(unique ^ unique >> 32));
    return length < PATH_MAX;
}

static ls_status too_long(const char *path)
{
    return lsi_fail(LS_ERR_IO, "cannot write '%s': its name is too long", path);
}

/*
 * Creates a file next to `path`, so that a rename between them is atomic. The
 * kernel applies the umask to `mode`: reading the umask would change it for a
 * moment, for all threads.
 */
static ls_status open_beside(const char *path, mode_t mode,
                             char temporary[PATH_MAX], int *fd)
{
    *fd = -1;
    for (int i = 0; *fd < 0 && i < MOST_TRIES; i++) {
        if (!name_beside(path, temporary))
            return too_long(path);
        *fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (*fd < 0 && errno != EEXIST)
            break;
    }
    return *fd >= 0 ? LS_OK : cannot_write(path);
}

/*
 * Creates a file without a name, so that a killed process leaves nothing; -1
 * where this is not supported.
 */
static int open_unnamed(const char *path, mode_t mode)
{
    char folder[PATH_MAX];
    const char *const slash = strrchr(path, '/');
    const int length = slash == NULL ? snprintf(folder, PATH_MAX, ".")
                                     : snprintf(folder, PATH_MAX, "%.*s",
                                                (int)(slash - path) + 1, path);
    return length < PATH_MAX && access("/proc/self/fd", X_OK) == 0
               ? open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, mode)
               : -1;
}

static ls_status give_name(int fd, const char *path, char temporary[PATH_MAX])
{
    char own[64];
    snprintf(own, sizeof(own), "/proc/self/fd/%d", fd);
    for (int i = 0; i < MOST_TRIES; i++) {
        if (!name_beside(path, temporary))
            return too_long(path);
        if (linkat(AT_FDCWD, own, AT_FDCWD, temporary, AT_SYMLINK_FOLLOW) == 0)
            return LS_OK;
        if (errno != EEXIST)
            break;
    }
    temporary[0] = '\0';
    return cannot_write(path);
}

/*
 * Creates the file that replaces `path`, with its mode. `unnamed`: if possible
 * the file has no name yet, and temporary is "".
 */
static ls_status open_replacement(const char *path, bool unnamed,
                                  char temporary[PATH_MAX], int *fd)
{
    struct stat info;
    const bool exists = stat(path, &info) == 0;
    const mode_t mode = exists ? 0600 : 0666;
    temporary[0] = '\0';
    LS_TRY(lsi_make_parents(path));
    *fd = unnamed ? open_unnamed(path, mode) : -1;
    if (*fd < 0)
        LS_TRY(open_beside(path, mode, temporary, fd));
    if (exists)
        fchmod(*fd, info.st_mode & 07777);
    return LS_OK;
}

ls_status lsi_result_check(const char *path)
{
    if (path == NULL || lsi_result_is_stdout(path))
        return LS_OK;
    if (path[0] == '\0')
        return lsi_fail(LS_ERR_IO, "cannot write a file with an empty name");
    struct stat info;
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode))
        return lsi_fail(LS_ERR_IO, "cannot write '%s': it is a folder", path);
    if (access(path, F_OK) == 0 && access(path, W_OK) != 0)
        return cannot_write(path);
    if (is_special(path))
        return LS_OK;
    char target[PATH_MAX];
    char temporary[PATH_MAX];
    int fd;
    LS_TRY(lsi_resolve_links(path, target)); /* links stay links */
    LS_TRY(lsi_make_parents(target));
    LS_TRY(open_beside(target, 0600, temporary, &fd));
    close(fd);
    unlink(temporary);
    return LS_OK;
}

/* Renames a file that was written completely, and removes any other. */
static ls_status put_in_place(ls_status status, const char *temporary,
                              const char *path)
{
    if (status == LS_OK && rename(temporary, path) != 0)
        status = cannot_write(path);
    if (status != LS_OK)
        unlink(temporary);
    return status;
}

ls_status lsi_result_check_file(const char *path)
{
    if (path != NULL && is_special(path))
        return lsi_fail(LS_ERR_IO,
                        "cannot save to '%s': it is not a regular file", path);
    return lsi_result_check(path);
}

/* A descriptor for `path`, and the temporary file, if any. */
static ls_status open_output(lsi_result_stream *stream, int *fd)
{
    const char *const path = stream->path;
    if (lsi_result_is_stdout(path)) {
        fflush(stdout);
        *fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
    } else if (is_special(path)) {
        *fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    } else {
        LS_TRY(lsi_resolve_links(path, stream->target));
        return open_replacement(stream->target, true, stream->temporary, fd);
    }
    return *fd >= 0 ? LS_OK : cannot_write(path);
}

ls_status lsi_result_open(lsi_result_stream *stream, const char *path)
{
    int fd;
    *stream = (lsi_result_stream){.path = path};
    LS_TRY(open_output(stream, &fd));
    stream->file = fdopen(fd, "w");
    if (stream->file != NULL)
        return LS_OK;
    const ls_status status =
        lsi_fail_errno(LS_ERR_MEMORY, "cannot write '%s'", path);
    close(fd);
    if (stream->temporary[0] != '\0')
        unlink(stream->temporary);
    return status;
}

/* The stream remembers an earlier write error, but not its errno. */
static ls_status finish_writing(lsi_result_stream *stream)
{
    FILE *const file = stream->file;
    if (ferror(file))
        return lsi_fail(LS_ERR_IO, "cannot write '%s': the file is incomplete",
                        stream->path);
    if (fflush(file) != 0 ||
        (stream->target[0] != '\0' && fsync(fileno(file)) != 0))
        return cannot_write(stream->path);
    return stream->target[0] != '\0' && stream->temporary[0] == '\0'
               ? give_name(fileno(file), stream->target, stream->temporary)
               : LS_OK;
}

ls_status lsi_result_close(lsi_result_stream *stream, ls_status status)
{
    if (status == LS_OK)
        status = finish_writing(stream);
    if (fclose(stream->file) != 0 && status == LS_OK)
        status = cannot_write(stream->path);
    return stream->temporary[0] == '\0'
               ? status
               : put_in_place(status, stream->temporary, stream->target);
}

ls_status lsi_result_write(const char *path, const char *data, size_t bytes)
{
    lsi_result_stream stream;
    LS_TRY(lsi_result_open(&stream, path));
    const ls_status status =
        lsi_write_to_file(fileno(stream.file), data, bytes, path);
    return lsi_result_close(&stream, status);
}

ls_status lsi_result_write_json(const char *path, json_t *json,
                                lsi_json_form form, const char *what)
{
    const bool wide = form == LSI_JSON_WIDE;
    char *const text = lsi_json_dumps(
        json, wide ? JSON_INDENT(2) | JSON_REAL_PRECISION(15) : JSON_INDENT(1));
    json_decref(json);
    if (text == NULL)
        return lsi_fail(LS_ERR_MEMORY, "not enough memory to write %s", what);
    /* The terminating zero becomes the end of the last line. */
    const size_t length = strlen(text);
    text[length] = wide ? '\n' : '\0';
    const ls_status status = lsi_result_write(path, text, length + wide);
    free(text);
    return status;
}

ls_status lsi_result_replace(const char *path, const char *data, size_t bytes)
{
    char target[PATH_MAX], temporary[PATH_MAX];
    int fd;
    LS_TRY(lsi_resolve_links(path, target));
    LS_TRY(open_replacement(target, false, temporary, &fd));
    const ls_status status = lsi_write_to_file(fd, data, bytes, target);
    close(fd);
    return put_in_place(status, temporary, target);
}

/* Appending JSON objects to a file, one in each line. */
#include "report/jsonl.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "report/result.h"

struct lsi_jsonl {
    int fd;
    char path[];
};

/* The end of the first `keep` lines, or -1; *n is the number of lines found. */
static off_t end_of_lines(int fd, int64_t keep, int64_t *n)
{
    char block[4096];
    off_t at = 0, end = 0;
    *n = 0;
    while (*n < keep) {
        const ssize_t got = pread(fd, block, sizeof(block), at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        for (ssize_t i = 0; i < got && *n < keep; i++) {
            if (block[i] != '\n')
                continue;
            end = at + i + 1;
            ++*n;
        }
        at += got;
    }
    return end;
}

/* Only regular files are cut. */
static ls_status cut(int fd, const char *path, int64_t keep)
{
    struct stat info;
    int64_t n;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))
        return LS_OK;
    const off_t end = end_of_lines(fd, keep, &n);
    if (end < 0) /* a file that cannot be read is not cut */
        return lsi_fail_errno(LS_ERR_IO, "cannot read '%s'", path);
    if (n < keep)
        lsi_log(LS_LOG_WARN,
                "'%s' contains only %" PRId64 " of the %" PRId64
                " lines that were written before the checkpoint; the run "
                "continues without the missing lines",
                path, n, keep);
    if (ftruncate(fd, end) != 0)
        return lsi_fail_errno(LS_ERR_IO, "cannot write '%s'", path);
    return LS_OK;
}

static ls_status open_file(const char *path, int64_t keep, int *fd)
{
    const int access = keep > 0 ? O_RDWR : O_WRONLY;
    LS_TRY(lsi_make_parents(path));
    *fd = open(path, access | O_CREAT | O_CLOEXEC | O_APPEND, 0666);
    if (*fd < 0)
        return lsi_fail_errno(LS_ERR_IO, "cannot write '%s'", path);
    const ls_status status = cut(*fd, path, keep);
    if (status != LS_OK)
        close(*fd);
    return status;
}

static ls_status open_lines(const char *path, int64_t keep, int *fd)
{
    if (!lsi_result_is_stdout(path))
        return open_file(path, keep, fd);
    *fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (*fd < 0)
        return lsi_fail_errno(LS_ERR_IO, "cannot write '%s'", path);
    return LS_OK;
}

ls_status lsi_jsonl_open(lsi_jsonl **out, const char *path, int64_t keep)
{
    int fd;
    LS_TRY(open_lines(path, keep, &fd));
    const size_t bytes = strlen(path) + 1;
    lsi_jsonl *lines = malloc(sizeof(*lines) + bytes);
    if (lines == NULL) {
        close(fd);
        return lsi_fail(LS_ERR_MEMORY, "not enough memory to write '%s'", path);
    }
    lines->fd = fd;
    memcpy(lines->path, path, bytes);
    *out = lines;
    return LS_OK;
}

ls_status lsi_jsonl_write(lsi_jsonl *lines, json_t *object)
{
    char *text = lsi_json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(15));
    json_decref(object);
    if (text == NULL)
        return lsi_fail(LS_ERR_MEMORY,
                        "not enough memory to write a line of JSON");
    /* The terminating zero becomes the line end. */
    const size_t length = strlen(text);
    text[length] = '\n';
    const ls_status status =
        lsi_write_to_file(lines->fd, text, length + 1, lines->path);
    free(text);
    return status;
}

void lsi_jsonl_close(lsi_jsonl **lines)
{
    if (lines == NULL || *lines == NULL)
        return;
    close((*lines)->fd);
    free(*lines);
    *lines = NULL;
}

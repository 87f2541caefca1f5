/*
 * Appending JSON objects to a file, a line each.
 */
#include "report/jsonl.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "report/output.h"

struct lsi_jsonl {
    int fd; /* -1: lines are dropped */
    char path[];
};

static ls_status open_lines(const char *path, bool append, int *fd)
{
    if (path == NULL) {
        *fd = -1;
        return LS_OK;
    }
    if (lsi_output_is_stdout(path))
        *fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    else
        *fd = open(path,
                   O_WRONLY | O_CREAT | O_CLOEXEC | O_APPEND |
                       (append ? 0 : O_TRUNC),
                   0666);
    if (*fd < 0)
        return lsi_fail_errno(LS_ERR_IO, "cannot write %s", path);
    return LS_OK;
}

ls_status lsi_jsonl_open(lsi_jsonl **out, const char *path, bool append)
{
    int fd;
    LS_TRY(open_lines(path, append, &fd));
    const char *shown = path == NULL ? "" : path;
    const size_t bytes = strlen(shown) + 1;
    lsi_jsonl *lines = malloc(sizeof(*lines) + bytes);
    if (lines == NULL) {
        if (fd >= 0)
            close(fd);
        return lsi_fail(LS_ERR_MEMORY, "no memory to write %s", shown);
    }
    lines->fd = fd;
    memcpy(lines->path, shown, bytes);
    *out = lines;
    return LS_OK;
}

ls_status lsi_jsonl_write(lsi_jsonl *lines, json_t *object)
{
    char *text = json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(15));
    json_decref(object);
    if (text == NULL)
        return lsi_fail(LS_ERR_MEMORY, "no memory for a line of JSON");
    ls_status status = LS_OK;
    if (lines->fd >= 0) {
        /* The terminating zero becomes the line's end. */
        const size_t length = strlen(text);
        text[length] = '\n';
        status = lsi_write_all(lines->fd, text, length + 1, lines->path);
    }
    free(text);
    return status;
}

void lsi_jsonl_close(lsi_jsonl **lines)
{
    if (lines == NULL || *lines == NULL)
        return;
    if ((*lines)->fd >= 0)
        close((*lines)->fd);
    free(*lines);
    *lines = NULL;
}

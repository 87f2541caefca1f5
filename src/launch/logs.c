/* The log files of a run; see logs.h. */
#include "launch/logs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

/* Makes the folder and those above it, as far as they are missing. */
static ls_status make_folders(const char *path)
{
    char part[4096];
    const size_t length = strlen(path);
    for (size_t i = 1; i <= length; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        memcpy(part, path, i);
        part[i] = '\0';
        if (mkdir(part, 0777) != 0 && errno != EEXIST)
            return lsi_fail_errno(LS_ERR_IO,
                                  "cannot make the folder '%s' for logs", part);
    }
    return LS_OK;
}

static ls_status name_folder(char out[4096], const lsi_logs_of *of)
{
    const int length = snprintf(out, 4096, "%s/%s/%d/%d", of->folder,
                                of->run_id, of->attempt, of->rank);
    if (length < 4096)
        return LS_OK;
    return lsi_fail(LS_ERR_ARGUMENT, "the name of the folder '%s' is too long",
                    of->folder);
}

static ls_status open_log(const char *folder, const char *name, int *fd)
{
    char path[4112];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    *fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (*fd >= 0)
        return LS_OK;
    return lsi_fail_errno(LS_ERR_IO, "cannot write to '%s'", path);
}

ls_status lsi_rank_logs_open(lsi_rank_logs *logs, const lsi_logs_of *of)
{
    LS_TRY(name_folder(logs->folder, of));
    LS_TRY(make_folders(logs->folder));
    /* A rank may change its working directory. */
    char *const whole = realpath(logs->folder, NULL);
    if (whole != NULL && strlen(whole) < sizeof(logs->folder))
        memcpy(logs->folder, whole, strlen(whole) + 1);
    free(whole);
    snprintf(logs->error_file, sizeof(logs->error_file), "%s/error.json",
             logs->folder);
    LS_TRY(open_log(logs->folder, "stdout.log", &logs->files[0]));
    const ls_status status =
        open_log(logs->folder, "stderr.log", &logs->files[1]);
    if (status != LS_OK)
        close(logs->files[0]);
    return status;
}

/* Where the last `lines` lines begin. */
static size_t tail_begin(const char *text, size_t length, int lines)
{
    size_t i = length;
    while (i > 0 && (text[i - 1] != '\n' || --lines > 0))
        i--;
    return i;
}

void lsi_rank_logs_tail(const lsi_logs_of *of, int lines, char *out,
                        size_t bytes)
{
    char rank_folder[4096], path[4112];
    out[0] = '\0';
    if (name_folder(rank_folder, of) != LS_OK)
        return;
    snprintf(path, sizeof(path), "%s/stderr.log", rank_folder);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat file;
    if (fd < 0)
        return;
    if (fstat(fd, &file) == 0 && file.st_size > 0) {
        const off_t room = (off_t)bytes - 1;
        const off_t from = file.st_size > room ? file.st_size - room : 0;
        const ssize_t got = pread(fd, out, (size_t)room, from);
        size_t length = got > 0 ? (size_t)got : 0;
        while (length > 0 && out[length - 1] == '\n')
            length--;
        const size_t begin = tail_begin(out, length, lines);
        memmove(out, out + begin, length - begin);
        out[length - begin] = '\0';
    }
    close(fd);
}

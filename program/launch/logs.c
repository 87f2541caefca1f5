/* The log files of a run; see logs.h. */
#include "launch/logs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"

static ls_status name_folder(char out[4096], const lsi_logs_of *of)
{
    const int length = snprintf(out, 4096, "%s/%s/%d/%d", of->folder,
                                of->run_id, of->attempt, of->rank);
    if (length < 4096)
        return LS_OK;
    return lsi_fail(
        LS_ERR_ARGUMENT,
        "the path of the log folder '%s' is too long; give a shorter --log-dir",
        of->folder);
}

static ls_status open_log(const char *folder, const char *name,
                          lsi_rotation rotation, lsi_log_file *log)
{
    char path[4112];
    struct stat file;
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    *log = (lsi_log_file){
        .fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666)};
    if (log->fd < 0)
        return lsi_fail_errno(LS_ERR_IO, "cannot open the log file '%s'", path);
    if (rotation.limit == 0)
        return LS_OK;
    log->limit = rotation.limit;
    log->keep = rotation.keep;
    log->bytes = fstat(log->fd, &file) == 0 ? (uint64_t)file.st_size : 0;
    log->path = strdup(path);
    if (log->path != NULL)
        return LS_OK;
    lsi_log_file_close(log);
    return lsi_fail(LS_ERR_MEMORY,
                    "not enough memory for the log files of a rank");
}

ls_status lsi_rank_logs_open(lsi_rank_logs *logs, const lsi_logs_of *of,
                             lsi_rotation rotation)
{
    LS_TRY(name_folder(logs->folder, of));
    LS_TRY(lsi_need_folders(logs->folder));
    /* A rank may change its working directory. */
    char *const whole = realpath(logs->folder, NULL);
    if (whole != NULL && strlen(whole) < sizeof(logs->folder))
        memcpy(logs->folder, whole, strlen(whole) + 1);
    free(whole);
    snprintf(logs->error_file, sizeof(logs->error_file), "%s/error.json",
             logs->folder);
    LS_TRY(open_log(logs->folder, "stdout.log", rotation, &logs->files[0]));
    const ls_status status =
        open_log(logs->folder, "stderr.log", rotation, &logs->files[1]);
    if (status != LS_OK)
        lsi_log_file_close(&logs->files[0]);
    return status;
}

/* ---- writing ---------------------------------------------------------- */

void lsi_log_file_close(lsi_log_file *log)
{
    if (log->fd >= 0)
        close(log->fd);
    free(log->path);
    log->fd = -1;
    log->path = NULL;
}

static void append(lsi_log_file *log, const char *data, size_t bytes)
{
    while (bytes > 0) {
        const ssize_t written = write(log->fd, data, bytes);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0 && log->error == 0)
            log->error = errno;
        if (written < 0)
            return;
        data += written;
        bytes -= (size_t)written;
        log->bytes += (uint64_t)written;
    }
}

static void name_older(const lsi_log_file *log, int number, char out[4128])
{
    snprintf(out, 4128, "%s.%d", log->path, number);
}

/* An earlier run of this name may have left files. */
static int last_number(const lsi_log_file *log)
{
    enum { MOST_DIGITS = 9 };
    const char *const name = strrchr(log->path, '/') + 1;
    const size_t length = strlen(name);
    char folder[4128];
    int last = 0;
    snprintf(folder, sizeof(folder), "%.*s", (int)(name - log->path),
             log->path);
    DIR *const entries = opendir(folder);
    const struct dirent *entry;
    while (entries != NULL && (entry = readdir(entries)) != NULL) {
        if (strncmp(entry->d_name, name, length) != 0 ||
            entry->d_name[length] != '.')
            continue;
        const char *const digits = entry->d_name + length + 1;
        if (strlen(digits) > MOST_DIGITS)
            continue; /* not a log file, or without a next number */
        const int number = (int)strtol(digits, NULL, 10);
        last = number > last ? number : last;
    }
    if (entries != NULL)
        closedir(entries);
    return last;
}

/* If rotation fails, the current file continues to grow. */
static void rotate(lsi_log_file *log)
{
    char path[4128];
    if (log->number == 0)
        log->number = last_number(log);
    name_older(log, log->number + 1, path);
    if (rename(log->path, path) != 0)
        return;
    const int fd =
        open(log->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0) {
        (void)rename(path, log->path);
        return;
    }
    close(log->fd);
    log->fd = fd;
    log->bytes = 0;
    log->number++;
    if (log->keep > 0 && log->number > log->keep) {
        name_older(log, log->number - log->keep, path);
        (void)unlink(path);
    }
}

/* The number of these bytes that still belong to the open file. */
static size_t share_of_file(const lsi_log_file *log, const char *data,
                            size_t bytes)
{
    const uint64_t room = log->bytes < log->limit ? log->limit - log->bytes : 0;
    if (log->limit == 0 || bytes < room)
        return bytes;
    const size_t from = room > 0 ? (size_t)room - 1 : 0;
    const char *const end = memchr(data + from, '\n', bytes - from);
    return end == NULL ? bytes : (size_t)(end - data) + 1;
}

void lsi_log_file_write(lsi_log_file *log, const char *data, size_t bytes)
{
    while (log->fd >= 0 && bytes > 0) {
        const size_t share = share_of_file(log, data, bytes);
        append(log, data, share);
        if (log->limit > 0 && log->bytes >= log->limit &&
            data[share - 1] == '\n')
            rotate(log);
        data += share;
        bytes -= share;
    }
}

#include "base/proc.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

ssize_t lsi_proc_read(const char *path, char *text, size_t room)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t bytes = fd < 0 ? -1 : read(fd, text, room - 1);
    text[bytes > 0 ? bytes : 0] = '\0';
    if (fd >= 0)
        close(fd);
    return bytes;
}

/* "pid (name) state ppid ...": the fields behind the name, from 0. */
enum { STATE, PARENT, FLAGS = 6, STARTED = 19, PROCESSOR = 36 };

size_t lsi_process_file(pid_t pid, const char *name, char *out, size_t room)
{
    char path[320];
    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    const ssize_t bytes = lsi_proc_read(path, out, room);
    return bytes > 0 ? (size_t)bytes : 0;
}

pid_t lsi_next_process(DIR *proc)
{
    const struct dirent *entry;
    pid_t pid = 0;
    while (pid <= 0 && (entry = readdir(proc)) != NULL)
        pid = (pid_t)strtol(entry->d_name, NULL, 10);
    return pid > 0 ? pid : 0;
}

double lsi_process_seconds(const lsi_process_stat *stat)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec -
           (double)stat->started / (double)sysconf(_SC_CLK_TCK);
}

/* Some 50 numbers and a name of 15 bytes. */
bool lsi_process_stat_read(pid_t pid, lsi_process_stat *out)
{
    char text[2048];
    int field = -1;
    if (lsi_process_file(pid, "stat", text, sizeof(text)) == 0)
        return false;
    /* The name, in parentheses, may hold anything. */
    char *at = strrchr(text, ')');
    while (at != NULL && field < PROCESSOR) {
        at = strchr(at, ' ');
        at = at != NULL ? at + 1 : NULL;
        field++;
        if (at != NULL && field == STATE)
            out->state = *at;
        if (at != NULL && field == FLAGS)
            out->flags = strtoul(at, NULL, 10);
        if (at != NULL && field == PARENT)
            out->parent = (pid_t)strtol(at, NULL, 10);
        if (at != NULL && field == STARTED)
            out->started = strtoull(at, NULL, 10);
        if (at != NULL && field == PROCESSOR)
            out->processor = (int)strtol(at, NULL, 10);
    }
    return at != NULL;
}

pid_t lsi_parent_of(pid_t pid)
{
    lsi_process_stat stat;
    return lsi_process_stat_read(pid, &stat) ? stat.parent : 0;
}

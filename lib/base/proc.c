#include "base/proc.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

bool lsi_process_stat_read(pid_t pid, lsi_process_stat *out)
{
    char path[32], text[2048]; /* some 50 numbers and a name of 15 bytes */
    int field = -1;
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    if (lsi_proc_read(path, text, sizeof(text)) <= 0)
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

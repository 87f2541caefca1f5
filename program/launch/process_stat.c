#include "launch/process_stat.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* "pid (name) state ppid ...": the fields behind the name, from 0. */
enum { STATE, PARENT, FLAGS = 6, STARTED = 19, PROCESSOR = 36 };

/* Some 50 numbers and a name of 15 bytes; false if the process has gone. */
static bool read_line(pid_t pid, char *text, size_t room)
{
    char path[32];
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    const ssize_t bytes = read(fd, text, room - 1);
    close(fd);
    text[bytes > 0 ? bytes : 0] = '\0';
    return bytes > 0;
}

bool lsi_process_stat_read(pid_t pid, lsi_process_stat *out)
{
    char text[2048];
    int field = -1;
    if (!read_line(pid, text, sizeof(text)))
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

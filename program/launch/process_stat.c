#include "launch/process_stat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/proc.h"

/* "pid (name) state ppid ...": the fields behind the name, from 0. */
enum { STATE, PARENT, FLAGS = 6, STARTED = 19, PROCESSOR = 36 };

/* Some 50 numbers and a name of 15 bytes; false if the process has gone. */
static bool read_line(pid_t pid, char *text, size_t room)
{
    char path[32];
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    return lsi_proc_read(path, text, room) > 0;
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

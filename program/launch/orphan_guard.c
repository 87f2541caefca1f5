#include "launch/orphan_guard.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

/*
 * Numbers that scripts, which use descriptors from 3 on, rarely use. A low
 * limit of descriptors may allow only the last one.
 */
static const int first_descriptors[] = {100, 20, 3};

int lsi_orphan_guard_open(void)
{
    int ends[2];
    return pipe2(ends, O_CLOEXEC) == 0 ? ends[0] : -1;
}

static int move(int opened)
{
    const size_t n = sizeof(first_descriptors) / sizeof(first_descriptors[0]);
    int own = -1;
    for (size_t i = 0; i < n && own < 0; i++)
        own = fcntl(opened, F_DUPFD, first_descriptors[i]);
    return own;
}

bool lsi_orphan_guard_arm(int orphan_guard)
{
    char path[64];
    if (orphan_guard < 0)
        return false;
    /* The owner belongs to the open file; an inherited file is shared. */
    snprintf(path, sizeof(path), "/proc/self/fd/%d", orphan_guard);
    const int opened = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (opened < 0)
        return false;
    const int own = move(opened);
    if (own < 0)
        return false;
    if (fcntl(own, F_SETOWN, -getpgrp()) == 0 &&
        fcntl(own, F_SETSIG, SIGKILL) == 0 &&
        fcntl(own, F_SETFL, O_NONBLOCK | O_ASYNC) == 0)
        return true;
    close(own);
    return false;
}

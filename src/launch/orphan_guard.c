#include "launch/orphan_guard.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

/* Out of the way of scripts, which number their descriptors from 3 on. */
enum { FIRST_DESCRIPTOR = 100 };

int lsi_orphan_guard_open(void)
{
    int ends[2];
    /* The writing end stays open until this process ends. */
    return pipe2(ends, O_CLOEXEC) == 0 ? ends[0] : -1;
}

void lsi_orphan_guard_take(int orphan_guard)
{
    char path[64];
    if (orphan_guard < 0)
        return;
    /* The owner belongs to the open file: one that is inherited is shared. */
    snprintf(path, sizeof(path), "/proc/self/fd/%d", orphan_guard);
    const int opened = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (opened < 0)
        return;
    const int own = fcntl(opened, F_DUPFD, FIRST_DESCRIPTOR);
    if (own < 0)
        return;
    if (fcntl(own, F_SETOWN, -getpgrp()) != 0 ||
        fcntl(own, F_SETSIG, SIGKILL) != 0 ||
        fcntl(own, F_SETFL, O_NONBLOCK | O_ASYNC) != 0)
        close(own);
}

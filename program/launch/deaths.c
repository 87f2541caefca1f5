/* The order in which ranks have ended; see deaths.h. */
#include "launch/deaths.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/proc.h"

void lsi_deaths_open(lsi_deaths *deaths, int n)
{
    *deaths = (lsi_deaths){0};
    const int epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0)
        return;
    int *const pidfds = malloc((size_t)n * sizeof(*pidfds));
    if (pidfds == NULL) {
        close(epoll);
        return;
    }
    for (int i = 0; i < n; i++)
        pidfds[i] = -1;
    *deaths = (lsi_deaths){epoll, pidfds, n};
}

void lsi_deaths_close(lsi_deaths *deaths)
{
    for (int i = 0; i < deaths->n; i++) {
        if (deaths->pidfds[i] >= 0)
            close(deaths->pidfds[i]);
    }
    if (deaths->n > 0)
        close(deaths->epoll);
    free(deaths->pidfds);
    *deaths = (lsi_deaths){0};
}

void lsi_deaths_watch(lsi_deaths *deaths, int rank, pid_t pid)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = rank};
    if (rank >= deaths->n)
        return;
    assert(deaths->pidfds[rank] < 0);
    /* It is closed by exec. Kernels before 5.3 have none. */
    const int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd >= 0 && epoll_ctl(deaths->epoll, EPOLL_CTL_ADD, fd, &event) != 0)
        close(fd);
    else
        deaths->pidfds[rank] = fd;
}

int lsi_deaths_next(lsi_deaths *deaths)
{
    struct epoll_event event;
    if (deaths->n == 0 || epoll_wait(deaths->epoll, &event, 1, 0) != 1)
        return -1;
    const int rank = event.data.fd;
    assert(deaths->pidfds[rank] >= 0); /* each once */
    /*
     * Closing is too little: a rank that is just being started has a copy until
     * its exec closes it.
     */
    (void)epoll_ctl(deaths->epoll, EPOLL_CTL_DEL, deaths->pidfds[rank], NULL);
    close(deaths->pidfds[rank]);
    deaths->pidfds[rank] = -1;
    return rank;
}

bool lsi_is_ending(pid_t pid)
{
    static const unsigned long exiting = 4; /* PF_EXITING */
    lsi_process_stat stat;
    return lsi_process_stat_read(pid, &stat) && (stat.flags & exiting) != 0;
}

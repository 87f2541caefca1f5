/*
 * In which order the ranks have ended. waitpid() hands out those that have
 * ended in the order in which they were started, which would blame rank 0 for
 * what it only noticed; the kernel's list of what is ready in an epoll has them
 * in the order of their ends.
 */
#ifndef LS_LAUNCH_DEATHS_H
#define LS_LAUNCH_DEATHS_H

#include <stdbool.h>
#include <sys/types.h>

typedef struct lsi_deaths {
    int epoll;
    int *pidfds; /* of each rank, -1: none */
    int n;       /* 0: nobody is watched */
} lsi_deaths;

/* For ranks 0 to n - 1. Where it cannot be had, nobody is watched. */
void lsi_deaths_open(lsi_deaths *deaths, int n);
void lsi_deaths_close(lsi_deaths *deaths);

void lsi_deaths_watch(lsi_deaths *deaths, int rank, pid_t pid);

/* The next that has ended and can be reaped, each once; -1 if there is none. */
int lsi_deaths_next(lsi_deaths *deaths);

/*
 * Whether the process has begun to end. Its sockets are closed, and peers fail
 * because of that, before it can be reaped: with much memory to give back it
 * takes a good while.
 */
bool lsi_is_ending(pid_t pid);

#endif

/*
 * A rank that crashes in nested functions: crashes HOW RANK. HOW is segv,
 * abort, fpe, null (a call of a null pointer), deep (a full stack), thread
 * (of four at once) or handler (it installs one).
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lockstep/group.h"

static void (*volatile no_function)(void);
static int *volatile no_place;
static volatile int zero;

static __attribute__((noinline)) int innermost(const char *how)
{
    if (strcmp(how, "abort") == 0)
        abort();
    if (strcmp(how, "null") == 0)
        no_function();
    else if (strcmp(how, "fpe") == 0)
        zero = (int)strlen(how) / zero;
    else
        *no_place = 1;
    return zero;
}

static __attribute__((noinline)) int middle(const char *how)
{
    return innermost(how) + zero;
}

static __attribute__((noinline)) int outermost(const char *how)
{
    return middle(how) + zero;
}

static __attribute__((noinline)) int deeper(int n)
{
    volatile char room[1000];
    room[n % 1000] = (char)n;
    return zero != 0 ? n : deeper(n + 1) + room[0];
}

static void *in_thread(void *context)
{
    pthread_barrier_wait(context);
    (void)outermost("segv");
    return NULL;
}

static void crash_in_threads(void)
{
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    pthread_barrier_t all;
    pthread_barrier_init(&all, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, in_thread, &all);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void own_handler(int number)
{
    (void)number;
    _exit(42);
}

int main(int argc, char **argv)
{
    ls_group *group;
    if (argc != 3)
        return 2;
    if (strcmp(argv[1], "handler") == 0)
        signal(SIGSEGV, own_handler);
    if (ls_group_from_env(&group) != LS_OK)
        return 1;
    if (atoi(argv[2]) != ls_group_rank(group))
        for (;;)
            pause();
    if (strcmp(argv[1], "thread") == 0)
        crash_in_threads();
    else if (strcmp(argv[1], "deep") == 0)
        (void)deeper(0);
    else
        (void)outermost(argv[1]);
    return 0;
}

#include "comm/net/mpi/mpi_thread.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <time.h>

#include "base/suspending_clock.h"
#include "comm/state/wire.h"

static sem_t asked, answered;
static int (*what)(void);
static int result;
static int runs, stuck; /* of the caller */

static void *serve(void *unused)
{
    (void)unused;
    for (;;) {
        while (sem_wait(&asked) != 0)
            continue;
        result = what();
        (void)sem_post(&answered);
    }
    return NULL;
}

/*
 * Signals are for the program's threads, not for those that MPI starts. Signals
 * of a failure are blocked, too, but they would end the process anyway.
 */
static int start(void)
{
    sigset_t all, before;
    pthread_attr_t attributes;
    pthread_t thread;
    if (sem_init(&asked, 0, 0) != 0 || sem_init(&answered, 0, 0) != 0 ||
        pthread_attr_init(&attributes) != 0)
        return -1;
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    runs = pthread_create(&thread, &attributes, serve, NULL) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attributes);
    return runs ? 0 : -1;
}

static struct timespec after_ms(long ms)
{
    struct timespec at;
    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_nsec += ms * 1000 * 1000;
    if (at.tv_nsec >= 1000L * 1000 * 1000) {
        at.tv_nsec -= 1000L * 1000 * 1000;
        at.tv_sec++;
    }
    return at;
}

/*
 * Whether the answer came before `until` by the suspending clock. With 0 this
 * waits without a limit.
 */
static int has_answered(double until)
{
    while (until == 0 || lsi_suspending_clock_seconds() < until) {
        const struct timespec slice_end = after_ms(LSI_SLICE_MS);
        if (sem_clockwait(&answered, CLOCK_MONOTONIC, &slice_end) == 0)
            return 1;
    }
    return 0;
}

/* Without a thread the call is made here, and may wait without a limit. */
int lsi_mpi_call(int (*call)(void), double seconds)
{
    const double until =
        seconds > 0 ? lsi_suspending_clock_seconds() + seconds : 0;
    if (stuck)
        return LSI_WIRE_LATE;
    if (!runs && start() != 0)
        return call();
    what = call;
    (void)sem_post(&asked);
    stuck = !has_answered(until);
    return stuck ? LSI_WIRE_LATE : result;
}

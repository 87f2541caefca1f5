#include "comm/health/sigterm.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/held.h"
#include "base/log.h"
#include "base/signal_stack.h"
#include "base/thread.h"
#include "comm/health/dump.h"
#include "comm/health/failure.h"

/* Later than the half second of the rank itself, before the SIGKILL. */
#define REPORT_AFTER_NS (700L * 1000 * 1000)

static atomic_bool received, reported;
static _Atomic uint64_t known_at; /* when it was first asked about */
static sem_t came;
static bool has_came;       /* under the lock */
static atomic_bool watches; /* a thread waits for it */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const ls_group *subject;

/*
 * A rank that computes, and so does not poll, still ends by the alarm. The
 * signal may come twice, from the launcher and from a process that sent it to
 * all processes of the job. So the second of the alarm counts from the first
 * signal.
 */
static void on_end(int number)
{
    const int saved = errno;
    (void)number;
    if (!atomic_exchange(&received, true)) {
        (void)sem_post(&came);
        alarm(1);
    }
    errno = saved;
}

void lsi_sigterm_came(void)
{
    if (atomic_load(&watches))
        (void)sem_post(&came);
}

static void report_dead_rank(const ls_group *group)
{
    const int rank = lsi_find_dead(group);
    assert(lsi_mutex_held(&lock) && group == subject);
    if (rank < 0)
        return;
    char text[LSI_HOST_BYTES + 128];
    const lsi_member *member = lsi_member_of(group, rank);
    snprintf(text, sizeof(text),
             "rank %d (host %s, pid %d) has died; this is rank %d. The "
             "launcher stopped this rank while it was computing",
             rank, member->host, (int)member->pid, group->rank);
    lsi_log_set_rank(group->rank);
    lsi_log(LS_LOG_ERROR, "%s", text);
    lsi_dump_failure(group, text);
}

static void *watch(void *unused)
{
    const struct timespec until_then = {.tv_nsec = REPORT_AFTER_NS};
    (void)unused;
    while (sem_wait(&came) != 0)
        continue;
    (void)nanosleep(&until_then, NULL);
    pthread_mutex_lock(&lock);
    if (subject != NULL && !atomic_load(&reported))
        report_dead_rank(subject);
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* Unlike SIG_IGN this is not passed on to programs that the rank starts. */
static void ignore_signal(int number)
{
    (void)number;
}

/* The launcher does not signal a child, which has no watching thread. */
static void in_child(void)
{
    struct sigaction action;
    if (sigaction(SIGTERM, NULL, &action) == 0 && action.sa_handler == on_end)
        (void)signal(SIGTERM, SIG_DFL);
}

static lsi_fork_guard fork_guard = {.in_child = in_child};

/* Unless the program handles the signal itself. */
static bool handle(int number, void (*handler)(int))
{
    struct sigaction action;
    if (sigaction(number, NULL, &action) != 0 || action.sa_handler != SIG_DFL)
        return false;
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART | SA_ONSTACK;
    lsi_use_signal_stack();
    return sigaction(number, &action, NULL) == 0;
}

/* A library leaves SIGTERM alone unless the program, or its user, asks. */
static ls_status is_asked(bool *out)
{
    const char *text = getenv("LOCKSTEP_SIGTERM");
    *out = text != NULL && strcmp(text, "1") == 0;
    if (text == NULL || *out || *text == '\0' || strcmp(text, "0") == 0)
        return LS_OK;
    return lsi_fail(LS_ERR_ARGUMENT,
                    "LOCKSTEP_SIGTERM is '%s'; it should be 0 or 1", text);
}

ls_status lsi_sigterm_listen(const ls_group *group)
{
    bool asked;
    LS_TRY(is_asked(&asked));
    lsi_guard_forks(&fork_guard);
    pthread_mutex_lock(&lock);
    if (subject == NULL)
        subject = group;
    if (!has_came) /* a watcher may wait for it already */
        has_came = sem_init(&came, 0, 0) == 0;
    if (asked && has_came && handle(SIGTERM, on_end))
        atomic_store(&watches, lsi_thread_watch(watch, NULL));
    pthread_mutex_unlock(&lock);
    (void)handle(SIGUSR1, ignore_signal);
    (void)handle(SIGPIPE, ignore_signal); /* by a dead peer */
    return LS_OK;
}

void lsi_sigterm_forget(const ls_group *group)
{
    pthread_mutex_lock(&lock);
    if (subject == group)
        subject = NULL;
    pthread_mutex_unlock(&lock);
}

bool lsi_sigterm_received(uint64_t *since_ns)
{
    if (!atomic_load_explicit(&received, memory_order_relaxed))
        return false;
    uint64_t never = 0;
    (void)atomic_compare_exchange_strong(&known_at, &never, lsi_clock_ns());
    *since_ns = lsi_clock_ns() - atomic_load(&known_at);
    return true;
}

void lsi_sigterm_reported(void)
{
    atomic_store(&reported, true);
}

/*
 * Log lines. A line for stderr is built in one buffer and written by one call,
 * so that the lines of several ranks on one terminal do not mix.
 *
 * A lock guards the function of the program while it is copied, and not while
 * it runs: it may run on several threads at once, and for long.
 */
#include "base/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fork.h"

enum { LINE_BYTES = 1280, LEVEL_UNSET = -1 };

static const char *const level_names[] = {"error", "warn", "info", "debug"};
static const int level_count = sizeof(level_names) / sizeof(level_names[0]);

static atomic_int threshold = LEVEL_UNSET;
static _Thread_local int line_rank = -1;

/* Set by ls_set_log; no function: stderr. */
typedef struct listener {
    ls_log_fn function;
    void *context;
} listener;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static lsi_fork_guard fork_guard = {.lock = &lock};
static listener listening;
static atomic_bool is_listening; /* without the lock: whether there is one */

const char *ls_log_level_name(ls_log_level level)
{
    return (unsigned)level < (unsigned)level_count ? level_names[level]
                                                   : "unknown";
}

void ls_set_log(ls_log_fn function, void *context)
{
    lsi_guard_forks(&fork_guard);
    pthread_mutex_lock(&lock);
    listening = (listener){function, context};
    atomic_store(&is_listening, function != NULL);
    pthread_mutex_unlock(&lock);
}

static listener current_listener(void)
{
    if (!atomic_load_explicit(&is_listening, memory_order_relaxed))
        return (listener){0};
    pthread_mutex_lock(&lock);
    const listener found = listening;
    pthread_mutex_unlock(&lock);
    return found;
}

void lsi_log_set_rank(int rank)
{
    line_rank = rank;
}

void lsi_log_write(const char *text, size_t bytes)
{
    while (bytes > 0) {
        ssize_t written = write(STDERR_FILENO, text, bytes);
        if (written <= 0)
            return; /* stderr itself cannot be reported elsewhere */
        text += written;
        bytes -= (size_t)written;
    }
}

/* Ends in "..." if there is more than a line has room for. */
static void write_to_stderr(ls_log_level level, const char *text)
{
    char line[LINE_BYTES];
    const size_t room = sizeof(line) - 1; /* the newline always fits */
    char rank[16] = "";
    if (line_rank >= 0)
        snprintf(rank, sizeof(rank), "[%d]", line_rank);
    size_t used = (size_t)snprintf(line, room, "lockstep%s %s: %s", rank,
                                   level_names[level], text);
    if (used >= room) {
        used = room - 1;
        memcpy(line + used - 3, "...", 3);
    }
    line[used++] = '\n';
    lsi_log_write(line, used);
}

static void write_line(ls_log_level level, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));

static void write_line(ls_log_level level, const char *format, va_list args)
{
    const int saved = errno;
    char text[LINE_BYTES];
    const int length = vsnprintf(text, sizeof(text), format, args);
    if (length < 0)
        text[0] = '\0';
    else if ((size_t)length >= sizeof(text))
        memcpy(text + sizeof(text) - sizeof("..."), "...", sizeof("..."));
    const listener to = current_listener();
    if (to.function != NULL)
        to.function(to.context, level, line_rank, text);
    else
        write_to_stderr(level, text);
    errno = saved;
}

static void write_now(ls_log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void write_now(ls_log_level level, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_line(level, format, args);
    va_end(args);
}

static int level_from_env(void)
{
    const char *name = getenv("LOCKSTEP_LOG");
    if (name == NULL || *name == '\0')
        return LS_LOG_WARN;
    for (int i = 0; i < level_count; i++) {
        if (strcmp(name, level_names[i]) == 0)
            return i;
    }
    write_now(LS_LOG_WARN,
              "LOCKSTEP_LOG is '%s'; it should be error, warn, info or debug. "
              "Using warn",
              name);
    return LS_LOG_WARN;
}

bool lsi_log_enabled(ls_log_level level)
{
    int limit = atomic_load_explicit(&threshold, memory_order_relaxed);
    if (limit == LEVEL_UNSET) {
        limit = level_from_env();
        atomic_store_explicit(&threshold, limit, memory_order_relaxed);
    }
    return (int)level <= limit;
}

void lsi_log(ls_log_level level, const char *format, ...)
{
    if (!lsi_log_enabled(level))
        return;
    va_list args;
    va_start(args, format);
    write_line(level, format, args);
    va_end(args);
}

/*
 * Log lines. A line is built in one buffer and written by one call, so that
 * the lines of several ranks on one terminal do not mix.
 */
#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE_BYTES = 1280, LEVEL_UNSET = -1 };

static const char *const level_names[] = {"error", "warn", "info", "debug"};
static const int level_count = sizeof(level_names) / sizeof(level_names[0]);

static atomic_int threshold = LEVEL_UNSET;
static _Thread_local int line_rank = -1;

void lsi_log_set_rank(int rank)
{
    line_rank = rank;
}

static void write_all(const char *text, size_t bytes)
{
    while (bytes > 0) {
        ssize_t written = write(STDERR_FILENO, text, bytes);
        if (written <= 0)
            return; /* there is no better place to complain about stderr */
        text += written;
        bytes -= (size_t)written;
    }
}

static void write_line(lsi_log_level level, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));

static void write_line(lsi_log_level level, const char *format, va_list args)
{
    char line[LINE_BYTES];
    const size_t room = sizeof(line) - 1; /* the newline always fits */
    char rank[16] = "";
    if (line_rank >= 0)
        snprintf(rank, sizeof(rank), "[%d]", line_rank);
    size_t used = (size_t)snprintf(line, room, "lockstep%s %s: ", rank,
                                   level_names[level]);
    int length = vsnprintf(line + used, room - used, format, args);
    used += length < 0 ? 0 : (size_t)length;
    if (used >= room) {
        used = room - 1;
        memcpy(line + used - 3, "...", 3);
    }
    line[used++] = '\n';
    write_all(line, used);
}

static void write_now(lsi_log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void write_now(lsi_log_level level, const char *format, ...)
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
        return LSI_LOG_WARN;
    for (int i = 0; i < level_count; i++) {
        if (strcmp(name, level_names[i]) == 0)
            return i;
    }
    write_now(
        LSI_LOG_WARN,
        "LOCKSTEP_LOG=%s is not a level; using warn of error, warn, info, "
        "debug",
        name);
    return LSI_LOG_WARN;
}

bool lsi_log_enabled(lsi_log_level level)
{
    int limit = atomic_load_explicit(&threshold, memory_order_relaxed);
    if (limit == LEVEL_UNSET) {
        limit = level_from_env();
        atomic_store_explicit(&threshold, limit, memory_order_relaxed);
    }
    return (int)level <= limit;
}

void lsi_log(lsi_log_level level, const char *format, ...)
{
    if (!lsi_log_enabled(level))
        return;
    va_list args;
    va_start(args, format);
    write_line(level, format, args);
    va_end(args);
}

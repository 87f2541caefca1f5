/*
 * Log lines, for stderr or the function of ls_set_log (lockstep/log.h). The
 * library writes nothing else to stderr.
 */
#ifndef LS_BASE_LOG_H
#define LS_BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>

#include "lockstep/log.h"

void lsi_log(ls_log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool lsi_log_enabled(ls_log_level level);

/* Writes a finished line to stderr, also in a signal handler. */
void lsi_log_write(const char *text, size_t bytes);

/* The rank that lines of this thread show; -1 (at first) shows none. */
void lsi_log_set_rank(int rank);

#endif

/*
 * Log lines on stderr: "lockstep[rank] level: text". The level comes from
 * LOCKSTEP_LOG=error|warn|info|debug (default warn).
 */
#ifndef LS_BASE_LOG_H
#define LS_BASE_LOG_H

#include <stdbool.h>

typedef enum lsi_log_level {
    LSI_LOG_ERROR,
    LSI_LOG_WARN,
    LSI_LOG_INFO,
    LSI_LOG_DEBUG
} lsi_log_level;

void lsi_log(lsi_log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool lsi_log_enabled(lsi_log_level level);

/* The rank that lines of this thread show; -1 (at first) shows none. */
void lsi_log_set_rank(int rank);

#endif

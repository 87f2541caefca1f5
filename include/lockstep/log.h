/*
 * Log lines of the library, and where they go.
 *
 * The library logs warnings about things that it went on without, such as a
 * checkpoint that cannot be read. LOCKSTEP_LOG=error|warn|info|debug sets the
 * least level that is logged (default: warn). Errors are not logged: the caller
 * gets a status and ls_last_error.
 */
#ifndef LOCKSTEP_LOG_H
#define LOCKSTEP_LOG_H

#include "lockstep/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ls_log_level {
    LS_LOG_ERROR = 0, /* this process is about to be ended by another */
    LS_LOG_WARN = 1,  /* something does not work; the call goes on without it */
    LS_LOG_INFO = 2,  /* a choice of the library that a program may change */
    LS_LOG_DEBUG = 3  /* each sentence that ls_last_error gets */
} ls_log_level;

/* "error", "warn", "info", "debug"; "unknown" for any other value. Static. */
LS_API const char *ls_log_level_name(ls_log_level level);

/*
 * Receives one line. `rank` is the rank that this thread plays, or -1. `text`
 * is the sentence, without rank, level or newline, and is valid during the call
 * only.
 *
 * Any thread that is inside the library may call it, threads of the library
 * too, and several at once. The library may hold locks meanwhile. So the
 * function must not wait for another thread that uses the library. It must not
 * leave by longjmp or a C++ exception, and calls only ls_log_level_name of the
 * library.
 */
typedef void (*ls_log_fn)(void *context, ls_log_level level, int rank,
                          const char *text);

/*
 * Gives every line to `function` instead of stderr, in this process, from now
 * on. NULL restores stderr, where a line is "lockstep[rank] level: text". The
 * least level stays that of LOCKSTEP_LOG. A line that another thread logs at
 * this moment may still go to the function that was set before, so its
 * `context` has to outlive that. A child that the process forks inherits the
 * function. Local; from any thread.
 */
LS_API void ls_set_log(ls_log_fn function, void *context);

#ifdef __cplusplus
}
#endif

#endif

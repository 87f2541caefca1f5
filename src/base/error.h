/*
 * Recording errors. The function that decides that something is wrong calls
 * lsi_fail once; its callers forward the status with LS_TRY.
 */
#ifndef LS_BASE_ERROR_H
#define LS_BASE_ERROR_H

#include <stdarg.h>

#include "lockstep/status.h"

/*
 * Records the sentence that ls_last_error returns in this thread, logs it at
 * debug level, and returns `status`.
 */
ls_status lsi_fail(ls_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

ls_status lsi_vfail(ls_status status, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));

/* As lsi_fail, with ": " and the text of errno at the end. */
ls_status lsi_fail_errno(ls_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * The static analyzer does not look into other files. Told that these return
 * their first argument, it sees that a failing function does not go on.
 */
#ifdef __clang_analyzer__
#    define lsi_fail(status, ...) (lsi_fail((status), __VA_ARGS__), (status))
#    define lsi_fail_errno(status, ...)                                        \
        (lsi_fail_errno((status), __VA_ARGS__), (status))
#endif

/* Returns from the calling function if `expr` is not LS_OK. */
#define LS_TRY(expr)                                                           \
    do {                                                                       \
        ls_status ls_try_ = (expr);                                            \
        if (ls_try_ != LS_OK)                                                  \
            return ls_try_;                                                    \
    } while (0)

/* As LS_TRY, but jumps to a label; `status` is a variable of the caller. */
#define LS_TRY_GOTO(status, expr, label)                                       \
    do {                                                                       \
        (status) = (expr);                                                     \
        if ((status) != LS_OK)                                                 \
            goto label;                                                        \
    } while (0)

#endif

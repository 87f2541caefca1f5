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

/* An error that is kept while other calls may fail. All zeros: none. */
typedef struct lsi_error {
    ls_status status;
    char text[1024];
} lsi_error;

/* Keeps `status`, unless LS_OK or not the first, and its sentence; returns it.
 */
ls_status lsi_error_keep(lsi_error *error, ls_status status);

/* Fails with what was kept; LS_OK if nothing was. */
ls_status lsi_error_again(const lsi_error *error);

/* Puts back what ls_last_error has returned before something else failed. */
void lsi_restore_error(const char *text);

/* The error with the number that a peer has sent; LS_ERR_SYSTEM if none has. */
ls_status lsi_error_of_peer(int number);

/*
 * Compilers do not look into other files. Shown that these return their first
 * argument, they see that a function does not go on after a failure.
 */
#define lsi_fail(status, ...)                                                  \
    __extension__({                                                            \
        const ls_status ls_fail_ = (status);                                   \
        lsi_fail(ls_fail_, __VA_ARGS__);                                       \
        ls_fail_;                                                              \
    })
#define lsi_fail_errno(status, ...)                                            \
    __extension__({                                                            \
        const ls_status ls_fail_ = (status);                                   \
        lsi_fail_errno(ls_fail_, __VA_ARGS__);                                 \
        ls_fail_;                                                              \
    })

/* Returns from the calling function if `expr` is not LS_OK. */
#define LS_TRY(expr)                                                           \
    do {                                                                       \
        ls_status ls_try_ = (expr);                                            \
        if (ls_try_ != LS_OK)                                                  \
            return ls_try_;                                                    \
    } while (0)

/*
 * Returns LS_ERR_ARGUMENT from a public function if one of the arguments that
 * it requires is NULL. Up to four, as a separate statement.
 */
#define LS_NEED(...)                                                           \
    LS_NEED_MANY(__VA_ARGS__, LS_NEED_4, LS_NEED_3, LS_NEED_2, LS_NEED_1, )    \
    (__VA_ARGS__)
#define LS_NEED_MANY(a, b, c, d, macro, ...) macro
#define LS_NEED_1(argument)                                                    \
    do {                                                                       \
        if ((argument) == NULL)                                                \
            return lsi_fail(LS_ERR_ARGUMENT, "%s: %s is NULL", __func__,       \
                            #argument);                                        \
    } while (0)
/* clang-format off */
#define LS_NEED_2(a, ...) LS_NEED_1(a); LS_NEED_1(__VA_ARGS__)
#define LS_NEED_3(a, ...) LS_NEED_1(a); LS_NEED_2(__VA_ARGS__)
#define LS_NEED_4(a, ...) LS_NEED_1(a); LS_NEED_3(__VA_ARGS__)
/* clang-format on */

/* As LS_TRY, but jumps to a label; `status` is a variable of the caller. */
#define LS_TRY_GOTO(status, expr, label)                                       \
    do {                                                                       \
        (status) = (expr);                                                     \
        if ((status) != LS_OK)                                                 \
            goto label;                                                        \
    } while (0)

#endif

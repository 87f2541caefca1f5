/*
 * The last error of each thread.
 */
#include "base/error.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/lists.h"
#include "base/log.h"
#include "base/printable.h"

#undef lsi_fail
#undef lsi_fail_errno

enum { MESSAGE_BYTES = sizeof((lsi_error){0}.text) };

static _Thread_local char last_error[MESSAGE_BYTES];

const char *ls_last_error(void)
{
    return last_error;
}

void lsi_restore_error(const char *text)
{
    snprintf(last_error, sizeof(last_error), "%s", text);
}

ls_status lsi_error_keep(lsi_error *error, ls_status status)
{
    if (status != LS_OK && error->status == LS_OK) {
        error->status = status;
        memcpy(error->text, last_error, sizeof(last_error));
    }
    return status;
}

static void record(int error_number, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));

/*
 * An argument may point into last_error (a caller that adds to the message of
 * a callee), so the text is built aside and then copied. Names in it may hold
 * anything. Of a text that is too long the reason stays.
 */
static void record(int error_number, const char *format, va_list args)
{
    char text[MESSAGE_BYTES], reason[128] = "", end[sizeof(reason) + 5] = "";
    const int length = vsnprintf(text, sizeof(text), format, args);
    if (length < 0)
        text[0] = '\0';
    if (error_number != 0)
        snprintf(end, sizeof(end), "...: %s",
                 strerror_r(error_number, reason, sizeof(reason)));
    else
        snprintf(end, sizeof(end), "...");
    const char *const after = end + strlen("...");
    const size_t room = sizeof(last_error) - strlen(after);
    const bool cut = !lsi_printable_lines(last_error, room, text) ||
                     length >= (int)sizeof(text);
    if (cut)
        lsi_printable_lines(last_error, room - strlen("..."), text);
    const size_t used = strlen(last_error);
    snprintf(last_error + used, sizeof(last_error) - used, "%s",
             cut ? end : after);
}

ls_status lsi_error_of_peer(int number)
{
    static const ls_status all[] = {
#define X(name, value, text) LS_##name,
        LSI_STATUS_LIST(X)
#undef X
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (number < 0 && (int)all[i] == number)
            return all[i];
    return LS_ERR_SYSTEM;
}

ls_status lsi_vfail(ls_status status, const char *format, va_list args)
{
    record(0, format, args);
    lsi_log(LS_LOG_DEBUG, "%s: %s", ls_status_name(status), last_error);
    return status;
}

ls_status lsi_fail(ls_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    lsi_vfail(status, format, args);
    va_end(args);
    return status;
}

ls_status lsi_error_again(const lsi_error *error)
{
    return error->status == LS_OK ? LS_OK
                                  : lsi_fail(error->status, "%s", error->text);
}

ls_status lsi_fail_errno(ls_status status, const char *format, ...)
{
    int error_number = errno;
    va_list args;
    va_start(args, format);
    record(error_number, format, args);
    va_end(args);
    lsi_log(LS_LOG_DEBUG, "%s: %s", ls_status_name(status), last_error);
    return status;
}

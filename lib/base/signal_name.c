#include "base/signal_name.h"

#include <signal.h>
#include <stdio.h>

/*
 * Weak, as C libraries before glibc 2.32 lack it. Where the library was built
 * does not matter, then.
 */
const char *sigabbrev_np(int number) __attribute__((weak));

lsi_signal_text lsi_signal_name(int number)
{
    lsi_signal_text out;
    const char *const name = sigabbrev_np == NULL ? NULL : sigabbrev_np(number);
    if (name != NULL)
        snprintf(out.text, sizeof(out.text), "SIG%s", name);
    else if (number == SIGRTMIN)
        snprintf(out.text, sizeof(out.text), "SIGRTMIN");
    else if (number > SIGRTMIN && number <= SIGRTMAX)
        snprintf(out.text, sizeof(out.text), "SIGRTMIN+%d", number - SIGRTMIN);
    else
        snprintf(out.text, sizeof(out.text), "SIG%d", number);
    return out;
}

/* The choice of forwarded signals. */
#include "launch/signals.h"

#include <stddef.h>
#include <sys/wait.h>

/*
 * A signal that was ignored when the program started (nohup) stays ignored:
 * blocking it would queue it anyway.
 */
static bool is_ignored(int number)
{
    struct sigaction action;
    return sigaction(number, NULL, &action) == 0 &&
           action.sa_handler == SIG_IGN;
}

void lsi_signals_passed_on(sigset_t *out)
{
    static const int numbers[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,
                                  SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT};
    sigemptyset(out);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        if (!is_ignored(numbers[i]))
            sigaddset(out, numbers[i]);
    }
}

bool lsi_signal_ends(int number)
{
    return number == SIGINT || number == SIGTERM || number == SIGHUP ||
           number == SIGQUIT;
}

int lsi_signal_exit_status(int status)
{
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* The signals that the front forwards to the ranks. */
#ifndef LS_LAUNCH_SIGNALS_H
#define LS_LAUNCH_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

/* Forwarded signals that this process does not ignore. */
void lsi_signals_passed_on(sigset_t *out);

/* Whether the signal asks a program to end: INT, TERM, HUP, QUIT. */
bool lsi_signal_ends(int number);

/* Exit status from a waitpid status, as in shells: 128 + N for signal N. */
int lsi_signal_exit_status(int status);

#endif

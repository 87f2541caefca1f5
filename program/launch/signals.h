/*
 * The signals that travel from the front to the ranks.
 */
#ifndef LS_LAUNCH_SIGNALS_H
#define LS_LAUNCH_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

/* Of the signals passed on, those that this process does not ignore. */
void lsi_signals_passed_on(sigset_t *out);

/* Whether it asks a program to end: INT, TERM, HUP, QUIT. */
bool lsi_signal_ends(int number);

/* Of a status as from waitpid, as shells have it: by signal N it is 128 + N. */
int lsi_signal_exit_status(int status);

#endif

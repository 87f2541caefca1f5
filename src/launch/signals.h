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

/*
 * Requests to end, and which of them are the same one. One event often sends
 * several: `timeout` signals its child and then its child's group, systemd
 * sends SIGTERM and SIGHUP, a shell and the kernel a SIGHUP each. So those
 * that come within a second of the one counted last are that one, except for
 * keys in a terminal (Ctrl-C, Ctrl-\): each is a person's, and counts.
 */
typedef struct lsi_requests {
    int n;         /* counted so far */
    double last;   /* when the last was */
    bool last_key; /* whether it was a key */
} lsi_requests;

/* Whether this one counts; `now` in seconds. */
bool lsi_request_counts(lsi_requests *requests, const siginfo_t *info,
                        double now);

#endif

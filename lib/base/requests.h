/*
 * Requests to end, by signal, and which of them are the same one. One event
 * often sends several: `timeout` signals its child and then its child's group,
 * systemd sends SIGTERM and SIGHUP, a shell and the kernel a SIGHUP each. So
 * those that come within a second of the one counted last are that one, except
 * for keys in a terminal (Ctrl-C, Ctrl-\): each is a person's, and counts.
 */
#ifndef LS_BASE_REQUESTS_H
#define LS_BASE_REQUESTS_H

#include <signal.h>
#include <stdbool.h>

typedef struct lsi_requests {
    int n;         /* counted so far */
    double last;   /* when the last was */
    bool last_key; /* whether it was a key */
} lsi_requests;

/* Whether this one counts; `now` in seconds. May be called by a handler. */
bool lsi_request_counts(lsi_requests *requests, const siginfo_t *info,
                        double now);

#endif

/*
 * Names of signals, for people.
 */
#ifndef LS_BASE_SIGNAL_NAME_H
#define LS_BASE_SIGNAL_NAME_H

typedef struct lsi_signal_text {
    char text[24];
} lsi_signal_text;

/* "SIGTERM", "SIGRTMIN+3"; "SIG33" for a number without a name. */
lsi_signal_text lsi_signal_name(int number);

#endif

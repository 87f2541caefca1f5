/*
 * Requests to end a run: the first SIGINT, SIGTERM or SIGHUP is noted, and the
 * training loop ends after the step, when it has saved; the second ends the
 * process as if there were no handler. What is one request base/requests.h
 * says, but that SIGTERM after SIGINT is another one: so a launcher passes on
 * that somebody is impatient. A signal that is ignored stays ignored.
 */
#ifndef LS_TRAIN_STOP_H
#define LS_TRAIN_STOP_H

#include <stdatomic.h>

/* From now on, in this process. */
void lsi_stop_listen(void);

/* What has come, as bits for lsi_stop_signal; set at any time. */
const atomic_uint *lsi_stop_requests(void);

/* The signal that stands for these; 0 for none. */
int lsi_stop_signal(unsigned bits);

/* The run ends because of that signal; 0 until then. */
void lsi_stop_set_ended(int number);
int lsi_stop_ended(void);

#endif

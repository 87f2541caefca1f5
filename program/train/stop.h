/*
 * Requests to end a run. The first SIGINT, SIGTERM or SIGHUP is noted, and the
 * training loop ends after the step, when it has saved. The second ends the
 * process as without a handler. base/requests.h defines which signals are one
 * request; here, SIGTERM after SIGINT is another one. With it a launcher passes
 * on that a user is impatient. A signal that is ignored stays ignored.
 */
#ifndef LS_TRAIN_STOP_H
#define LS_TRAIN_STOP_H

#include <stdatomic.h>

/* From now on, in this process. */
void lsi_stop_listen(void);

/* The signals received, as bits for lsi_stop_signal; set at any time. */
const atomic_uint *lsi_stop_requests(void);

/* The signal that stands for these; 0 for none. */
int lsi_stop_signal(unsigned bits);

/* The run ends because of that signal; 0 until then. */
void lsi_stop_set_ended(int number);
int lsi_stop_ended(void);

#endif

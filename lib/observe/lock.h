/*
 * The lock of the recorder, under which files are written. A thread that holds
 * it and allocates does not record this: the recorder's memory is not part of a
 * recording. A process that forks holds the lock meanwhile.
 */
#ifndef LS_OBSERVE_LOCK_H
#define LS_OBSERVE_LOCK_H

#include <stdbool.h>

/* Not called by a thread that holds it. */
void lsi_observe_lock(void);
void lsi_observe_unlock(void);

/* Takes the lock; false: this thread holds it, and has nothing to record. */
bool lsi_observe_enter(void);

#endif

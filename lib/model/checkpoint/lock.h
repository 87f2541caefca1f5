/*
 * One writer for each folder. The lock is a kernel lock on an open file in the
 * folder; it is released when its process ends in any way, and the existence of
 * the file means nothing. Forked children do not inherit it. Readers need no
 * lock. Local.
 */
#ifndef LS_MODEL_CHECKPOINT_LOCK_H
#define LS_MODEL_CHECKPOINT_LOCK_H

#include <stdbool.h>

#include "lockstep/status.h"

#define LSI_LOCK_FILE ".lock" /* held by the process that saves here */

/* All zero: not held. It must stay where it is while it is held. */
typedef struct lsi_folder_lock {
    bool held;
    bool alone; /* exclusive: the file system supports locks */
    int fd;
    struct lsi_folder_lock *next; /* of this process */
} lsi_folder_lock;

/*
 * Acquires the lock of an existing folder, on the file of that name; LS_OK if
 * it is held already. LS_ERR_STATE names the host and the process that still
 * hold it after a second. On a file system without locks it warns and succeeds.
 */
ls_status lsi_folder_lock_acquire(lsi_folder_lock *lock, const char *folder,
                                  const char *name);

void lsi_folder_lock_drop(lsi_folder_lock *lock);

/* Removes the file `name` of the folder, then drops the lock. */
void lsi_folder_lock_remove(lsi_folder_lock *lock, const char *folder,
                            const char *name);

#endif

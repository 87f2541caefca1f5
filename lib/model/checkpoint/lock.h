/*
 * One writer for each folder. The lock is a kernel lock on an open file in the
 * folder; it is released when its process ends in any way, and the existence of
 * the file means nothing. Forked children do not inherit it.
 * Readers take none. Local.
 */
#ifndef LS_MODEL_CHECKPOINT_LOCK_H
#define LS_MODEL_CHECKPOINT_LOCK_H

#include <stdbool.h>

#include "lockstep/status.h"

#define LSI_LOCK_FILE ".lock" /* of those who write checkpoints */

/* All zero: not held. It must stay where it is while it is held. */
typedef struct lsi_folder_lock {
    bool held;
    bool alone; /* exclusive: the file system supports locks */
    int fd;
    struct lsi_folder_lock *next; /* of this process */
} lsi_folder_lock;

/*
 * Takes the lock of a folder that is there, on the file of that name; LS_OK if
 * it is held already. LS_ERR_STATE names host and process of who still has it
 * after a second. Where the file system has no locks, a warning says so, and it
 * is taken.
 */
ls_status lsi_folder_lock_take(lsi_folder_lock *lock, const char *folder,
                               const char *name);

void lsi_folder_lock_drop(lsi_folder_lock *lock);

/* The same, and removes the file, whose folder and name are those. */
void lsi_folder_lock_remove(lsi_folder_lock *lock, const char *folder,
                            const char *name);

#endif

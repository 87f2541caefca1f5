/*
 * Saving, for a run that keeps the lock of its folder from one save to the
 * next.
 */
#ifndef LS_MODEL_CHECKPOINT_SAVE_H
#define LS_MODEL_CHECKPOINT_SAVE_H

#include "lockstep/checkpoint.h"
#include "model/checkpoint/lock.h"

/* As ls_checkpoint_save; rank 0 takes its lock if it is not held, and keeps it.
 */
ls_status lsi_checkpoint_save(ls_group *group, lsi_folder_lock *lock,
                              const char *folder, int64_t step,
                              const ls_checkpoint_parts *parts, int keep);

#endif

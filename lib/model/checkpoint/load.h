/*
 * Opening a checkpoint that is not the newest.
 */
#ifndef LS_MODEL_CHECKPOINT_LOAD_H
#define LS_MODEL_CHECKPOINT_LOAD_H

#include "lockstep/checkpoint.h"

/* As ls_checkpoint_open, of the newest one of at most `most` steps. */
ls_status lsi_checkpoint_open(ls_checkpoint **out, ls_group *group,
                              const char *folder, int64_t most);

#endif

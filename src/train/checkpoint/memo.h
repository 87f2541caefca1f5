/*
 * What this process remembers of checkpoints: which it has found whole, so that
 * it reads each once, and what it has warned of. It has room for some
 * thousands; to forget one means to read, or to warn, again.
 */
#ifndef LS_TRAIN_CHECKPOINT_MEMO_H
#define LS_TRAIN_CHECKPOINT_MEMO_H

#include <stdbool.h>

/* Of a step's folder as it is now; another one of that name is not known. */
void lsi_memo_add_whole(const char *step_folder);
bool lsi_memo_is_whole(const char *step_folder);

/* Whether this is the first warning of its kind. */
bool lsi_memo_is_new(const char *kind);

#endif

/*
 * A cache of this process: checkpoints found intact, so that each is read once;
 * checkpoints passed over; warnings given. It holds some thousands of entries.
 * A dropped entry means another read, another warning, or a save that makes no
 * room.
 */
#ifndef LS_MODEL_CHECKPOINT_CACHE_H
#define LS_MODEL_CHECKPOINT_CACHE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Applies to a step's folder as it is now, not to a later one of the same name.
 */
void lsi_checkpoint_cache_add_intact(const char *step_folder);
bool lsi_checkpoint_cache_has_intact(const char *step_folder);

/*
 * Whether this process, looking for a checkpoint to open in a folder, has last
 * passed over that step. The folder may be named in different ways.
 */
void lsi_checkpoint_cache_set_passed(const char *folder, int64_t step,
                                     bool passed);
bool lsi_checkpoint_cache_was_passed(const char *folder, int64_t step);

/* Whether this is the first warning of its kind. */
bool lsi_checkpoint_cache_is_first(const char *kind);

#endif

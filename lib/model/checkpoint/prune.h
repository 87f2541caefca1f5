/*
 * Removing old checkpoints. Local.
 */
#ifndef LS_MODEL_CHECKPOINT_PRUNE_H
#define LS_MODEL_CHECKPOINT_PRUNE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * To be called after the checkpoint of a step was saved. The newest `keep`
 * intact ones including it stay (0: all), and all that are older are removed,
 * intact or not. The remains of unfinished saves of older steps are removed if
 * no other process can be saving there. Newer checkpoints and links are neither
 * removed nor counted, and a warning mentions newer ones once. A failure to
 * remove something is not an error.
 */
void lsi_checkpoint_prune(const char *folder, int64_t saved, int keep,
                          bool alone);

#endif

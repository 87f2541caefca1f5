/*
 * Removing what is too old. Local.
 */
#ifndef LS_TRAIN_CHECKPOINT_PRUNE_H
#define LS_TRAIN_CHECKPOINT_PRUNE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * After the checkpoint of a step was saved: with it the newest `keep` whole
 * ones stay (0: all), and what is older than those goes, whole or not. What
 * saves that did not end have left of older steps goes if nobody else can be
 * saving there. Nothing goes that is newer, or is a link; it is not counted
 * either, and a warning says once what is newer. What cannot be removed costs
 * space and nothing else.
 */
void lsi_checkpoint_prune(const char *folder, int64_t saved, int keep,
                          bool alone);

#endif

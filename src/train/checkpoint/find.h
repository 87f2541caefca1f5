/*
 * Which checkpoint of a folder is meant. Local.
 */
#ifndef LS_TRAIN_CHECKPOINT_FIND_H
#define LS_TRAIN_CHECKPOINT_FIND_H

#include "train/checkpoint/folder.h"

/*
 * The step of the newest whole checkpoint. What is not whole is named in a
 * warning and passed over; if none is left the error says what is wrong with
 * the newest.
 */
ls_status lsi_checkpoint_newest(const char *folder, int64_t *step);

/*
 * The file of weights that a path means: of a folder of checkpoints that of the
 * newest whole one; of a folder with a model.safetensors, such as that of a
 * step, this one; else the path itself. A step's folder must be whole.
 */
ls_status lsi_checkpoint_weights(const char *path, lsi_path *out);

#endif

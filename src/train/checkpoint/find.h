/*
 * Which checkpoints are whole, and which of a folder is meant. Local.
 */
#ifndef LS_TRAIN_CHECKPOINT_FIND_H
#define LS_TRAIN_CHECKPOINT_FIND_H

#include "train/checkpoint/folder.h"

/*
 * Reads all of the checkpoint in a step's folder. LS_ERR_FORMAT if it is not
 * whole; LS_ERR_IO and others if it cannot be told. The second takes the word
 * of this process's memory, if it has read, or saved, it before.
 */
ls_status lsi_checkpoint_verify(const char *step_folder);
ls_status lsi_checkpoint_verify_once(const char *step_folder);

/*
 * The step of the newest whole checkpoint. What is not whole is named in a
 * warning and passed over. LS_ERR_NOT_FOUND if no save has come to its end,
 * LS_ERR_FORMAT if some have and none is whole: it says what is wrong with the
 * newest; LS_ERR_IO if that is no folder that can be read.
 */
ls_status lsi_checkpoint_newest(const char *folder, int64_t *step);

/*
 * The file of weights that a path means: of a folder of checkpoints that of the
 * newest whole one; of a folder with a model.safetensors, such as that of a
 * step, this one; else the path itself. A step's folder must be whole.
 */
ls_status lsi_checkpoint_weights(const char *path, lsi_path *out);

#endif

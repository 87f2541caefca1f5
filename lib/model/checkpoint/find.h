/*
 * Finding checkpoints: which are intact, and which one a path means. Local.
 */
#ifndef LS_MODEL_CHECKPOINT_FIND_H
#define LS_MODEL_CHECKPOINT_FIND_H

#include "model/checkpoint/folder.h"

/*
 * Reads all of the checkpoint in a step's folder. LS_ERR_FORMAT if it is not
 * intact; LS_ERR_IO and others if that cannot be determined. The second reads
 * nothing if this process has read, or saved, the checkpoint before.
 */
ls_status lsi_checkpoint_verify(const char *step_folder);
ls_status lsi_checkpoint_verify_once(const char *step_folder);

/*
 * The step of the newest intact checkpoint of at most `most` steps. Damaged
 * ones are named in a warning and skipped. LS_ERR_NOT_FOUND if no save has
 * finished; LS_ERR_FORMAT if some have and none is intact, with the fault of
 * the newest; LS_ERR_IO if the path is not a readable folder.
 */
ls_status lsi_checkpoint_newest(const char *folder, int64_t most,
                                int64_t *step);

/*
 * The file of weights that a path means: for a folder of checkpoints that of
 * the newest intact one; for a folder with a model.safetensors, such as that of
 * a step, or with an index of several, this file; else the path itself. A
 * step's folder must be intact.
 */
ls_status lsi_checkpoint_weights(const char *path, lsi_path *out);

#endif

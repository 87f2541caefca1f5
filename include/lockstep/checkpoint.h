/*
 * Checkpoints: what a run needs to go on as if it had not stopped.
 *
 * A checkpoint is a folder step-000000000123 in a folder of checkpoints:
 *
 *     model.safetensors                  parameters, and rank 0's buffers
 *     rank-00000-of-00002.safetensors    rank 0's part of the optimizer's
 *                                        state, and its buffers
 *     rank-00001-of-00002.safetensors
 *     manifest.json                      sizes and checksums of the others
 *
 * Every file appears at once, and the manifest last: a folder without one is
 * what is left of a save that did not end, and is ignored. All functions here
 * are collective, and fail on all ranks with the same message or on none.
 *
 * A run that goes on where it was, if it had begun:
 *
 *     ls_checkpoint *found = NULL;
 *     int64_t step = 0;
 *     ls_status status = ls_checkpoint_open(&found, group, folder);
 *     if (status == LS_OK) {
 *         step = ls_checkpoint_step(found);
 *         status = ls_checkpoint_load(found, params, optimizer);
 *         ls_checkpoint_close(&found);
 *     } else if (status == LS_ERR_NOT_FOUND) {
 *         status = LS_OK; // nothing was saved yet: it begins
 *     }
 *     if (status != LS_OK)
 *         return status; // to begin would train over what is there
 *
 * One run at a time saves in a folder: rank 0 holds a lock of the kernel on the
 * file .lock in it, which ends with its process. Readers need none.
 */
#ifndef LOCKSTEP_CHECKPOINT_H
#define LOCKSTEP_CHECKPOINT_H

#include "lockstep/group.h"
#include "lockstep/optim.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a checkpoint is made of. */
typedef struct ls_checkpoint_parts {
    const ls_params *params;
    const ls_optimizer *optimizer; /* or NULL */
    /*
     * Whatever else the program wants to find again, as a NULL-terminated array
     * of key, value, key, value, ... or NULL. Rank 0's are kept, in the
     * manifest and in the metadata of model.safetensors.
     */
    const char *const *values;
} ls_checkpoint_parts;

/*
 * Saves to a new folder for this step in `folder`, which is made if it is not
 * there. The ranks write their parts at the same time. Then older checkpoints
 * are removed, except that the newest `keep` whole ones stay, this one among
 * them (0: all), and what saves that did not end have left of older steps.
 * What is newer, or a symbolic link, is neither counted nor removed; a warning
 * says once what is newer. To know which are whole, each that was not saved or
 * opened by this process is read once. Only files that a save writes are
 * removed.
 *
 * After an error everything older is as it was, and this one is not there, or
 * whole if the ranks only failed to tell each other so. If there is a
 * checkpoint of this step already it stays and the result is LS_ERR_STATE; so
 * it is if another process saves in the folder: the message names it and its
 * host.
 */
LS_API ls_status ls_checkpoint_save(ls_group *group, const char *folder,
                                    int64_t step,
                                    const ls_checkpoint_parts *parts, int keep);

typedef struct ls_checkpoint ls_checkpoint;

/*
 * Finds the newest whole checkpoint in a folder; what is not whole is named in
 * a warning (see LOCKSTEP_LOG) and passed over. On success *out is the
 * caller's.
 *
 *     LS_ERR_NOT_FOUND   nothing there yet: there is no such folder, or no save
 *                        in it has come to its end
 *     LS_ERR_FORMAT      some have, and none is whole; the message says what is
 *                        wrong with the newest
 *     LS_ERR_IO          that is no folder, or not one that can be read
 */
LS_API ls_status ls_checkpoint_open(ls_checkpoint **out, ls_group *group,
                                    const char *folder);

/* Its step, and a value that was saved with it; NULL if there is none. */
LS_API int64_t ls_checkpoint_step(const ls_checkpoint *checkpoint);
LS_API const char *ls_checkpoint_value(const ls_checkpoint *checkpoint,
                                       const char *key);

/*
 * Fills parameters, buffers and the state of an optimizer (NULL: leave it
 * out), bit for bit what was saved, on any number of ranks and however the
 * state was and is divided. Models and optimizers must be alike: the first
 * tensor that differs is named. Buffers of rank r are those of the saved rank
 * r mod the number of ranks that saved. Learning rates and other options are
 * not touched. After an error the contents are undefined.
 */
LS_API ls_status ls_checkpoint_load(const ls_checkpoint *checkpoint,
                                    ls_params *params, ls_optimizer *optimizer);

/* Local. Frees it and sets *checkpoint to NULL. Accepts NULLs. */
LS_API void ls_checkpoint_close(ls_checkpoint **checkpoint);

#ifdef __cplusplus
}
#endif

#endif

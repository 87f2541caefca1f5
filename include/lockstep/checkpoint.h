/*
 * Checkpoints: what a run needs to resume as if it had not stopped.
 *
 * A checkpoint is a folder step-000000000123 in a folder of checkpoints:
 *
 *     model.safetensors                  parameters, and rank 0's buffers
 *     rank-00000-of-00002.safetensors    rank 0's part of the optimizer's
 *                                        state, and its buffers
 *     rank-00001-of-00002.safetensors
 *     manifest.json                      sizes and checksums of the others
 *
 * Files are replaced atomically, the manifest last: a folder without one is
 * left over from an unfinished save and is ignored. All functions here are
 * collective, and fail on all ranks with the same message or on none.
 *
 * A run that resumes from a checkpoint if there is one:
 *
 *     ls_checkpoint *found = NULL;
 *     int64_t step = 0;
 *     ls_status status = ls_checkpoint_open(&found, group, folder);
 *     if (status == LS_OK) {
 *         step = ls_checkpoint_step(found);
 *         status = ls_checkpoint_load(found, params, optimizer);
 *         ls_checkpoint_close(&found);
 *     } else if (status == LS_ERR_NOT_FOUND) {
 *         status = LS_OK; // nothing was saved yet: start from scratch
 *     }
 *     if (status != LS_OK)
 *         return status; // starting over could replace what is there
 *
 * One run at a time can save to a folder: rank 0 holds a kernel lock on the
 * file .lock in it, which is released when its process ends. Readers need no
 * lock.
 */
#ifndef LOCKSTEP_CHECKPOINT_H
#define LOCKSTEP_CHECKPOINT_H

#include "lockstep/group.h"
#include "lockstep/optim.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The parts of a checkpoint. */
typedef struct ls_checkpoint_parts {
    size_t struct_size; /* sizeof, or 0: as in 0.1 (docs/reference/abi.md) */
    const ls_params *params;
    const ls_optimizer *optimizer; /* or NULL */
    /*
     * Other values to restore, as a NULL-terminated array of key, value, key,
     * value, ... or NULL. Rank 0's are stored, in the manifest and in the
     * metadata of model.safetensors.
     */
    const char *const *values;
    /*
     * Further pairs of rank 0's, or NULL, that are stored in the metadata of
     * model.safetensors alone: large ones that describe the model.
     */
    const char *const *metadata;
} ls_checkpoint_parts;

/*
 * Saves to a new folder for this step in `folder`, which is created with its
 * missing parents. The ranks write their parts at the same time. Then older
 * checkpoints are removed, except for the newest `keep` intact ones including
 * this one (0 keeps all). The remains of unfinished saves of older steps are
 * removed, too. Newer checkpoints and symbolic links are neither counted nor
 * removed; a warning mentions newer ones once. Each checkpoint that this
 * process did not save or open is read once, to check that it is intact. Only
 * files that a save writes are removed.
 *
 * ls_checkpoint_open in this process may have skipped a checkpoint of this step
 * because reading it failed. It is then renamed to
 * unreadable-step-000000000123, which is never read or removed here.
 *
 * After an error all older checkpoints are unchanged, and the new one does not
 * exist, or is intact if the ranks only failed to tell each other so. If there
 * is any other checkpoint of this step, it is kept and the result is
 * LS_ERR_STATE; so it is if another process saves to the folder: the message
 * names that process and its host.
 */
LS_API LS_MUST_CHECK ls_status
ls_checkpoint_save(ls_group *group, const char *folder, int64_t step,
                   const ls_checkpoint_parts *parts, int keep);

typedef struct ls_checkpoint ls_checkpoint;

/*
 * Finds the newest intact checkpoint in a folder; damaged ones are named in a
 * warning (see LOCKSTEP_LOG) and skipped. On success *out is the caller's.
 *
 *     LS_ERR_NOT_FOUND   nothing found yet: the folder does not exist, or no
 *                        save in it has finished
 *     LS_ERR_FORMAT      saves have finished, but no checkpoint is intact; the
 *                        message says what is wrong with the newest
 *     LS_ERR_IO          not a folder, or not readable
 */
LS_API LS_MUST_CHECK ls_status ls_checkpoint_open(ls_checkpoint **out,
                                                  ls_group *group,
                                                  const char *folder);

/* Its step, and a value that was saved with it; NULL if there is none. */
LS_API int64_t ls_checkpoint_step(const ls_checkpoint *checkpoint);
LS_API const char *ls_checkpoint_value(const ls_checkpoint *checkpoint,
                                       const char *key);

/*
 * Restores parameters, buffers and the state of an optimizer (NULL: none) bit
 * for bit, on any number of ranks and however the state was and is divided.
 * Models and optimizers must match: the first tensor that differs is named.
 * Rank r gets the buffers of the saved rank r mod the number of ranks that
 * saved. Learning rates and other options are not touched. After an error the
 * contents are undefined.
 */
LS_API LS_MUST_CHECK ls_status
ls_checkpoint_load(const ls_checkpoint *checkpoint, ls_params *params,
                   ls_optimizer *optimizer);

/* Local. Frees it and sets *checkpoint to NULL. Accepts NULLs. */
LS_API void ls_checkpoint_close(ls_checkpoint **checkpoint);

#ifdef __cplusplus
}
#endif

#endif

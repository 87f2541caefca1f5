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
 * are removed, except that the newest `keep` stay (0: all). After an error
 * everything older is as it was. If there is a checkpoint of this step already
 * it stays and the result is LS_ERR_STATE.
 */
LS_API ls_status ls_checkpoint_save(ls_group *group, const char *folder,
                                    int64_t step,
                                    const ls_checkpoint_parts *parts, int keep);

typedef struct ls_checkpoint ls_checkpoint;

/*
 * Finds the newest whole checkpoint in a folder; what is not whole is named in
 * a warning (see LOCKSTEP_LOG) and passed over. If none is left the error says
 * what is wrong with the newest. On success *out is the caller's.
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

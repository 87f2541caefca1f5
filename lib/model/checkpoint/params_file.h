/*
 * A model as a safetensors file.
 */
#ifndef LS_MODEL_CHECKPOINT_PARAMS_FILE_H
#define LS_MODEL_CHECKPOINT_PARAMS_FILE_H

#include "base/atomic_file.h"
#include "lockstep/autograd.h"

/*
 * Writes parameters and then buffers under their names, with metadata as in
 * ls_safetensors_save; *sum is of the file. Local.
 */
ls_status lsi_params_save(const ls_params *params, const char *path,
                          const char *const *metadata, lsi_file_sum *sum);

/* Fills all of them, as ls_safetensors_load. Local. */
ls_status lsi_params_load(ls_params *params, const char *path);

#endif

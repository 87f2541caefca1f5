/*
 * A model as a safetensors file.
 */
#ifndef LS_MODEL_CHECKPOINT_PARAMS_FILE_H
#define LS_MODEL_CHECKPOINT_PARAMS_FILE_H

#include "base/atomic_file.h"
#include "lockstep/params.h"

/* As ls_params_save; *sum is of the file. */
ls_status lsi_params_save(const ls_params *params, const char *path,
                          const char *const *metadata, lsi_file_sum *sum);

#endif

/*
 * A model as a safetensors file.
 */
#ifndef LS_TRAIN_SAVE_H
#define LS_TRAIN_SAVE_H

#include "lockstep/autograd.h"

/*
 * Writes parameters and then buffers under their names, with metadata as in
 * ls_safetensors_save. Local.
 */
ls_status lsi_params_save(const ls_params *params, const char *path,
                          const char *const *metadata);

#endif

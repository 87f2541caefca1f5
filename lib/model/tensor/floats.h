/*
 * Arrays of floats that are not tensors: parameters in one piece, the state of
 * optimizers.
 */
#ifndef LS_MODEL_TENSOR_FLOATS_H
#define LS_MODEL_TENSOR_FLOATS_H

#include "base/memory.h"

/* As lsi_alloc_zeroed: *out = `count` zeros, freed by lsi_free. */
ls_status lsi_floats_new(float **out, size_t count, ls_memory_tag tag,
                         const char *what);

#endif

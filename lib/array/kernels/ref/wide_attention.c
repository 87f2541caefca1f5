/* Attention with portable bits, in plain C. */
#include "array/kernels/portable/wide.h"

#define F32_ONLY
#include "array/kernels/attention/tile_level.h"

const lsi_flash_ops lsi_flash_portable_ref = OPS_OF(f32);

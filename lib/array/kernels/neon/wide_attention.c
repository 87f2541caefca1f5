/* Attention with portable bits, in NEON. */
#include "fold/neon/vector.h"

#include "array/kernels/portable/wide.h"

#define F32_ONLY
#include "array/kernels/attention/tile_level.h"

const lsi_flash_ops lsi_flash_portable_neon = OPS_OF(f32);

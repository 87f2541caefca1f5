/* Attention with portable bits, in AVX2. */
#include "fold/avx2/vector.h"

#include "array/kernels/portable/wide.h"

#define F32_ONLY
#include "array/kernels/attention/tile_level.h"

const lsi_flash_ops lsi_flash_portable_avx2 = OPS_OF(f32);

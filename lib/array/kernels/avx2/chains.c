/* Sums of products in portable bits, at the level AVX2. */
#include "fold/avx2/vector.h"

#include "array/kernels/simd/chains.h"

const lsi_chain_ops lsi_chains_avx2 = CHAIN_OPS;

/* Sums of products in portable bits, at the level AVX-512. */
#include "fold/avx512/vector.h"

#include "array/kernels/simd/chains.h"

const lsi_chain_ops lsi_chains_avx512 = CHAIN_OPS;

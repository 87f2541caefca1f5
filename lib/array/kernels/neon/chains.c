/* Sums of products in portable bits, at the level NEON. */
#include "fold/neon/vector.h"

#include "array/kernels/simd/chains.h"

const lsi_chain_ops lsi_chains_neon = CHAIN_OPS;

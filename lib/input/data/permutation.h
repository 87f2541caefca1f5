/* Random orders that are a pure function of a key. */
#ifndef LS_INPUT_DATA_PERMUTATION_H
#define LS_INPUT_DATA_PERMUTATION_H

#include <stdint.h>

#include "base/rng.h"

/* Writes a uniformly random permutation of 0..n-1 (Fisher and Yates). */
void lsi_permutation(lsi_rng_key key, uint64_t sub, int64_t n, int64_t *out);

#endif

/* The shuffle of Fisher and Yates over counter-based random numbers. */
#include "input/data/permutation.h"

void lsi_permutation(lsi_rng_key key, uint64_t sub, int64_t n, int64_t *out)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = i;
    for (int64_t i = n - 1; i > 0; i--) {
        const uint64_t bound = (uint64_t)i + 1;
        const uint64_t j = lsi_rng_below(key, sub, (uint64_t)i, bound);
        const int64_t other = out[j];
        out[j] = out[i];
        out[i] = other;
    }
}

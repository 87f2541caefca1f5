/*
 * Which samples a rank sees: pure functions of a few integers, so that no rank
 * needs to ask another.
 */
#include <inttypes.h>

#include "base/error.h"
#include "base/memory.h"
#include "input/data/dataset.h"

/* Sets the sampler's random numbers apart from others with the same seed. */
static const uint64_t sampler_stream = 0x73616d706c657200;

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

static bool is_valid(const ls_sampler *s)
{
    return s->count >= 0 && s->size >= 1 && s->rank >= 0 && s->rank < s->size;
}

int64_t ls_sampler_count(const ls_sampler *sampler)
{
    if (sampler == NULL || !is_valid(sampler))
        return 0;
    const int64_t whole = sampler->count / sampler->size;
    const int64_t rest = sampler->count % sampler->size;
    const bool one_more = sampler->pad ? rest > 0 : sampler->rank < rest;
    return whole + (one_more ? 1 : 0);
}

static ls_status check(const ls_sampler *s)
{
    if (is_valid(s))
        return LS_OK;
    return lsi_fail(LS_ERR_ARGUMENT,
                    "sampler: count %" PRId64 ", rank %d of %d; expected "
                    "count >= 0, size >= 1 and 0 <= rank < size",
                    s->count, s->rank, s->size);
}

/* The rank's elements of the order `all`, or of 0..count-1 if it is NULL. */
static void take_share(const ls_sampler *s, const int64_t *all,
                       int64_t *indices)
{
    const int64_t n = ls_sampler_count(s);
    for (int64_t i = 0; i < n; i++) {
        const int64_t place = (s->rank + i * s->size) % s->count;
        indices[i] = all == NULL ? place : all[place];
    }
}

ls_status ls_sampler_fill(const ls_sampler *sampler, int64_t *indices)
{
    LS_NEED(sampler);
    LS_TRY(check(sampler));
    if (sampler->count > 0)
        LS_NEED(indices);
    if (!sampler->shuffle) {
        take_share(sampler, NULL, indices);
        return LS_OK;
    }
    int64_t *all = NULL;
    LS_TRY(lsi_alloc(&all, (size_t)sampler->count * sizeof(int64_t),
                     LS_MEMORY_DATA, "order of an epoch"));
    const lsi_rng_key key = {sampler->seed, sampler_stream};
    lsi_permutation(key, sampler->epoch, sampler->count, all);
    take_share(sampler, all, indices);
    lsi_free(all);
    return LS_OK;
}

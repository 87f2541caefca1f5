/*
 * The samples that a rank sees: pure functions of a few integers, so that no
 * rank needs to ask another.
 */
#include <inttypes.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/structs.h"
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

static ls_status read_sampler(const ls_sampler *given, ls_sampler *out)
{
    return LSI_STRUCT_READ(out, given, ls_sampler, pad);
}

static int64_t count_share(const ls_sampler *s)
{
    const int64_t whole = s->count / s->size, rest = s->count % s->size;
    const bool one_more = s->pad ? rest > 0 : s->rank < rest;
    return whole + (one_more ? 1 : 0);
}

int64_t ls_sampler_count(const ls_sampler *sampler)
{
    ls_sampler own;
    if (sampler == NULL || read_sampler(sampler, &own) != LS_OK ||
        !is_valid(&own))
        return 0;
    return count_share(&own);
}

static ls_status check(const ls_sampler *s)
{
    if (is_valid(s))
        return LS_OK;
    return lsi_fail(LS_ERR_ARGUMENT,
                    "sampler: count is %" PRId64
                    ", rank %d and size %d; expected count >= 0, size >= 1 and "
                    "0 <= rank < size",
                    s->count, s->rank, s->size);
}

/* The rank's elements of the order `all`, or of 0..count-1 if it is NULL. */
static void fill_share(const ls_sampler *s, const int64_t *all,
                       int64_t *indices)
{
    const int64_t n = count_share(s);
    for (int64_t i = 0; i < n; i++) {
        const int64_t place = (s->rank + i * s->size) % s->count;
        indices[i] = all == NULL ? place : all[place];
    }
}

ls_status ls_sampler_fill(const ls_sampler *sampler, int64_t *indices)
{
    ls_sampler s;
    LS_NEED(sampler);
    LS_TRY(read_sampler(sampler, &s));
    LS_TRY(check(&s));
    if (s.count > 0)
        LS_NEED(indices);
    if (!s.shuffle) {
        fill_share(&s, NULL, indices);
        return LS_OK;
    }
    int64_t *all = NULL;
    LS_TRY(lsi_alloc(&all, (size_t)s.count * sizeof(int64_t), LS_MEMORY_DATA,
                     "order of an epoch"));
    const lsi_rng_key key = {s.seed, sampler_stream};
    lsi_permutation(key, s.epoch, s.count, all);
    fill_share(&s, all, indices);
    lsi_free(all);
    return LS_OK;
}

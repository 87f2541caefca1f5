#include "model/parallel/grad_range.h"

#include <stdbool.h>

/* ---- buckets --------------------------------------------------------------
 */

static bool follows(const lsi_grad_range *before, const lsi_grad_range *after)
{
    return before->data + before->extent == after->data;
}

size_t lsi_bucket_layout(const lsi_grad_range *spans, size_t n, uint64_t limit,
                         lsi_range *out)
{
    size_t buckets = 0;
    uint64_t filled = 0;
    for (size_t i = 0; i < n; i++) {
        const uint64_t bytes = spans[i].count * sizeof(float);
        const bool fits = filled <= limit && bytes <= limit - filled;
        if (i == 0 || !fits || !follows(&spans[i - 1], &spans[i])) {
            out[buckets++] = (lsi_range){i, i};
            filled = 0;
        }
        out[buckets - 1].end = i + 1;
        filled += bytes;
    }
    return buckets;
}

/* ---- shards ---------------------------------------------------------------
 */

size_t lsi_shard_size(size_t count, int size)
{
    const size_t n = (size_t)size;
    const size_t share = (count + n - 1) / n;
    return (share + LSI_SHARD_UNIT - 1) / LSI_SHARD_UNIT * LSI_SHARD_UNIT;
}

lsi_range lsi_shard_of(size_t count, size_t shard, int rank)
{
    const size_t begin = (size_t)rank * shard, end = begin + shard;
    return (lsi_range){begin < count ? begin : count,
                       end < count ? end : count};
}

/* The first span whose middle is after `part` of `parts` of all. */
static size_t first_after(const lsi_grad_range *spans, size_t n, size_t total,
                          lsi_range part)
{
    size_t before = 0;
    for (size_t i = 0; i < n; i++) {
        const size_t middle = before + spans[i].count / 2;
        if (middle * part.end >= total * part.begin)
            return i;
        before += spans[i].count;
    }
    return n;
}

lsi_range lsi_shard_spans(const lsi_grad_range *spans, size_t n, int size,
                          int rank)
{
    const size_t parts = (size_t)size, r = (size_t)rank;
    size_t total = 0;
    for (size_t i = 0; i < n; i++)
        total += spans[i].count;
    const lsi_range from = {r, parts}, to = {r + 1, parts};
    return (lsi_range){r == 0 ? 0 : first_after(spans, n, total, from),
                       r + 1 == parts ? n : first_after(spans, n, total, to)};
}

#include "model/parallel/shard.h"

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

/* The first span whose middle lies behind `part` of `parts` of all. */
static size_t first_behind(const lsi_grad_range *spans, size_t n, size_t total,
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
    return (lsi_range){r == 0 ? 0 : first_behind(spans, n, total, from),
                       r + 1 == parts ? n : first_behind(spans, n, total, to)};
}

/*
 * The one way in which this project divides n things into parts: collectives,
 * shards, samplers and threads all use it. Parts differ by at most one unit,
 * the larger ones first; parts may be empty.
 */
#ifndef LS_BASE_PARTITION_H
#define LS_BASE_PARTITION_H

#include <stddef.h>

typedef struct lsi_range {
    size_t begin, end; /* end is one past the last */
} lsi_range;

static inline size_t lsi_range_size(lsi_range range)
{
    return range.end - range.begin;
}

/* The intersection of two ranges, which may be empty. */
static inline lsi_range lsi_range_common(lsi_range a, lsi_range b)
{
    const size_t begin = a.begin > b.begin ? a.begin : b.begin;
    const size_t end = a.end < b.end ? a.end : b.end;
    return (lsi_range){begin, end > begin ? end : begin};
}

/* Part `part` of 0..n-1 divided into `parts` (>= 1). */
lsi_range lsi_partition(size_t n, size_t parts, size_t part);

/*
 * As lsi_partition, with every boundary except the last at a multiple of
 * `unit` (>= 1), so that parts do not share a cache line.
 */
lsi_range lsi_partition_aligned(size_t n, size_t parts, size_t part,
                                size_t unit);

#endif

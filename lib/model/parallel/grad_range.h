/*
 * Ranges of gradients: which travel together, and which rank owns which. Pure:
 * sizes and places in, buckets and shards out.
 */
#ifndef LS_MODEL_PARALLEL_GRAD_RANGE_H
#define LS_MODEL_PARALLEL_GRAD_RANGE_H

#include <stdint.h>

#include "base/partition.h"

/* Gradients in memory. */
typedef struct lsi_grad_range {
    float *data;
    size_t count;  /* gradients */
    size_t extent; /* floats that may travel, with padding; >= count */
} lsi_grad_range;

/*
 * Divides spans 0..n-1, in the order in which they become final, into buckets
 * of at most `limit` bytes of gradients. A larger span has a bucket to itself,
 * and a bucket is one range of memory: it ends where the next span does not
 * begin. Returns the number of buckets; the spans of bucket i are out[i].begin
 * .. out[i].end - 1. `out` has room for n.
 */
size_t lsi_bucket_layout(const lsi_grad_range *spans, size_t n, uint64_t limit,
                         lsi_range *out);

/* Shards begin at a multiple of this number of floats: a page. */
enum { LSI_SHARD_UNIT = 1024 };

/* Floats of each of `size` equal shards that hold `count`. */
size_t lsi_shard_size(size_t count, int size);

/* The part of 0..count-1 in a rank's shard. */
lsi_range lsi_shard_of(size_t count, size_t shard, int rank);

/*
 * The spans that a rank owns if spans are not divided: neighbours, with shares
 * of the floats that are as equal as possible.
 */
lsi_range lsi_shard_spans(const lsi_grad_range *spans, size_t n, int size,
                          int rank);

#endif

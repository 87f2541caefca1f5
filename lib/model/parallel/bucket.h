/*
 * Which gradients travel together. Pure: sizes and places in, buckets out.
 */
#ifndef LS_MODEL_PARALLEL_BUCKET_H
#define LS_MODEL_PARALLEL_BUCKET_H

#include <stdint.h>

#include "base/partition.h"

/* Megabytes of a bucket are millions of bytes. */
#define LSI_BUCKET_MB 1e6

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
 * begin. Returns how many buckets there are; the spans of bucket i are
 * out[i].begin .. out[i].end - 1. `out` has room for n.
 */
size_t lsi_bucket_layout(const lsi_grad_range *spans, size_t n, uint64_t limit,
                         lsi_range *out);

#endif

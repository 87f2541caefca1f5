/*
 * Who owns which part of a flat buffer. Pure.
 */
#ifndef LS_MODEL_PARALLEL_SHARD_H
#define LS_MODEL_PARALLEL_SHARD_H

#include "base/partition.h"
#include "model/parallel/bucket.h"

/* Shards begin at a multiple of so many floats: a page. */
enum { LSI_SHARD_UNIT = 1024 };

/* Floats of each of `size` equal shards that hold `count`. */
size_t lsi_shard_size(size_t count, int size);

/* The part of 0..count-1 that lies in a rank's shard. */
lsi_range lsi_shard_of(size_t count, size_t shard, int rank);

/*
 * The spans that a rank owns if none is divided: neighbours, as near to equal
 * shares of the floats as that allows.
 */
lsi_range lsi_shard_spans(const lsi_grad_range *spans, size_t n, int size,
                          int rank);

#endif

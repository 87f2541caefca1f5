/*
 * The engine of all strategies: it adds up gradients over ranks, bucket by
 * bucket, in place.
 *
 * All ranks start their buckets in the same order, that of their spans; a
 * bucket that is final early waits for its turn. So ranks may finish their
 * gradients in different orders, or some not at all before `finish`.
 *
 * No thread works in the background: a rank advances the buckets in flight
 * whenever another of its gradients becomes final, and in finish. With a thread
 * for each CPU, no CPU is free. After all ranks have arrived, the remaining
 * work is an addition as fast as memory allows.
 */
#ifndef LS_MODEL_PARALLEL_REDUCER_H
#define LS_MODEL_PARALLEL_REDUCER_H

#include "lockstep/group.h"
#include "model/parallel/grad_range.h"
#include "model/parallel/strategy.h"

typedef struct lsi_reducer lsi_reducer;

typedef struct lsi_reducer_plan {
    const lsi_grad_range *spans; /* copied */
    size_t n;
    uint64_t bucket_bytes;
    lsi_start start;
    /*
     * Floats that are added up together with the last bucket if they follow it
     * in memory, and else separately. Their values must be decided when the
     * last span is ready.
     */
    lsi_grad_range extra;
    /*
     * Not 0: a rank gets the sums of its shard only; the spans are contiguous,
     * and rank r owns floats r * shard .. (r + 1) * shard - 1.
     */
    size_t shard;
    /*
     * At most one bucket should be in flight while the next is made; a rank
     * that is ahead waits, but not for ever.
     */
    bool one_at_a_time;
    /*
     * In flight, or 0 for all. Between nodes a bucket in flight needs several
     * times its size.
     */
    size_t most;
    /* Called when the sums of spans have arrived; may be NULL. */
    void (*done)(void *context, lsi_range spans);
    void *context;
} lsi_reducer_plan;

/*
 * Plans all communication. Collective over `channel`, which carries nothing
 * else and must outlive the reducer. On success *out is the caller's.
 */
ls_status lsi_reducer_new(lsi_reducer **out, ls_group *channel,
                          const lsi_reducer_plan *plan);
void lsi_reducer_free(lsi_reducer **reducer);

/* Begins a reduction: no span is ready. Local. */
ls_status lsi_reducer_begin(lsi_reducer *reducer);

/* Span i is final and will not be touched before finish. Returns soon. */
ls_status lsi_reducer_ready(lsi_reducer *reducer, size_t i);
bool lsi_reducer_is_ready(const lsi_reducer *reducer, size_t i);

/* All spans are final now. Returns when they hold the sums. Collective. */
ls_status lsi_reducer_finish(lsi_reducer *reducer);

/*
 * Replaces finish for a rank that cannot go on. The rank enters the remaining
 * buckets without taking part, so that finish fails on the other ranks, too.
 * `status` and the last error say why; both are returned. Collective.
 */
ls_status lsi_reducer_refuse(lsi_reducer *reducer, ls_status status);

/* Seconds spent waiting for other ranks so far. */
double lsi_reducer_waited(const lsi_reducer *reducer);

#endif

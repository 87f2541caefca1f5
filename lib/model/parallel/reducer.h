/*
 * The engine of all strategies: it adds up gradients over ranks, bucket by
 * bucket, in place.
 *
 * All ranks start their buckets in the same order, that of their spans; a
 * bucket that is final early waits for its turn. So ranks may finish their
 * gradients in different orders, or some not at all before `finish`.
 *
 * Nobody works in the background: a rank moves what is in flight whenever
 * another of its gradients becomes final, and in finish. With a thread for
 * each CPU there is no CPU to spare, and what is left to do when all have
 * arrived is an addition as fast as memory allows.
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
     * Floats that are added up along with the last bucket if they lie behind
     * it in memory, and else by themselves. What they hold must be decided
     * when the last span is ready.
     */
    lsi_grad_range extra;
    /*
     * Not 0: a rank gets the sums of its shard only; the spans lie one behind
     * the other, and rank r owns floats r * shard .. (r + 1) * shard - 1.
     */
    size_t shard;
    /*
     * One bucket should be on its way at most while the next is made; a rank
     * that is ahead waits, though not for ever.
     */
    bool one_at_a_time;
    /* Unless NULL: told when the sums of spans are there. */
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
 * Instead of finish, for a rank that cannot go on: it takes its place in the
 * buckets that are left without taking part, so that finish fails on the other
 * ranks, too. `status` and the last error say why; both are returned.
 * Collective.
 */
ls_status lsi_reducer_refuse(lsi_reducer *reducer, ls_status status);

/* Seconds in which other ranks were waited for so far. */
double lsi_reducer_waited(const lsi_reducer *reducer);

#endif

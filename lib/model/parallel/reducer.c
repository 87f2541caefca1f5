#include "model/parallel/reducer.h"

#include <assert.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "comm/api/request.h"
#include "comm/core/agree.h"

static const double HOLD_SECONDS = 1, SPIN_SECONDS = 0.001;

typedef struct bucket {
    ls_request *request;
    size_t first, spans, missing; /* missing: spans not ready yet */
} bucket;

struct lsi_reducer {
    ls_group *channel;
    lsi_start start;
    bool open;
    bool one_at_a_time, holds; /* requested, and still kept in this reduction */
    size_t n, buckets;
    size_t started, done; /* buckets */
    bucket *bucket;
    size_t most;       /* buckets in flight */
    size_t *bucket_of; /* [n] */
    bool *ready;       /* [n] */
    void (*on_done)(void *context, lsi_range spans);
    void *context;
    double waited;
    double ended; /* time at which the last reduction ended */
};

/* ---- planning ------------------------------------------------------------ */

static bool extra_follows(const lsi_reducer_plan *plan)
{
    if (plan->n == 0 || plan->shard != 0)
        return false;
    const lsi_grad_range *const last = &plan->spans[plan->n - 1];
    return last->data + last->extent == plan->extra.data;
}

static ls_status plan_sum(ls_group *channel, lsi_grad_range range,
                          ls_request **out)
{
    return ls_all_reduce_plan(channel, range.data, range.data, range.extent,
                              LS_F32, LS_REDUCE_SUM, out);
}

static ls_status plan_request(ls_group *channel, const lsi_reducer_plan *plan,
                              lsi_grad_range range, ls_request **out)
{
    if (plan->shard == 0)
        return plan_sum(channel, range, out);
    const lsi_shards shards = {(size_t)(range.data - plan->spans[0].data),
                               plan->shard};
    return lsi_reduce_shards_plan(
        channel, (lsi_buffer){range.data, range.extent, LS_F32}, shards, out);
}

static lsi_grad_range join_spans(const lsi_grad_range *spans, lsi_range range)
{
    const lsi_grad_range *const first = &spans[range.begin];
    const lsi_grad_range *const last = &spans[range.end - 1];
    const float *const end = last->data + last->extent;
    return (lsi_grad_range){.data = first->data,
                            .extent = (size_t)(end - first->data)};
}

static ls_status plan_buckets(lsi_reducer *r, ls_group *channel,
                              const lsi_reducer_plan *plan,
                              const lsi_range *layout, size_t buckets)
{
    const bool along = extra_follows(plan);
    for (size_t b = 0; b < buckets; b++) {
        assert(layout[b].begin == (b == 0 ? 0 : layout[b - 1].end) &&
               layout[b].end > layout[b].begin);
        lsi_grad_range range = join_spans(plan->spans, layout[b]);
        if (along && b + 1 == buckets)
            range.extent += plan->extra.extent;
        for (size_t i = layout[b].begin; i < layout[b].end; i++)
            r->bucket_of[i] = b;
        LS_TRY(plan_request(channel, plan, range, &r->bucket[b].request));
        r->bucket[b].first = layout[b].begin;
        r->bucket[b].spans = lsi_range_size(layout[b]);
        r->buckets++;
    }
    assert(buckets == 0 || layout[buckets - 1].end == plan->n);
    if (along)
        return LS_OK;
    LS_TRY(plan_sum(channel, plan->extra, &r->bucket[buckets].request));
    r->buckets++;
    return LS_OK;
}

/* *layout is the caller's. */
static ls_status alloc_plan(lsi_reducer **out, size_t n, lsi_range **layout)
{
    const char *const what = "the gradient reduction plan";
    LS_TRY(lsi_alloc_zeroed(out, sizeof(lsi_reducer), LS_MEMORY_COMM, what));
    lsi_reducer *const r = *out;
    r->n = n;
    LS_TRY(lsi_alloc_zeroed(&r->bucket, (n + 1) * sizeof(bucket),
                            LS_MEMORY_COMM, what));
    LS_TRY(lsi_alloc_zeroed(&r->bucket_of, n * sizeof(size_t), LS_MEMORY_COMM,
                            what));
    LS_TRY(lsi_alloc_zeroed(&r->ready, n * sizeof(bool), LS_MEMORY_COMM, what));
    return lsi_alloc_zeroed(layout, n * sizeof(lsi_range), LS_MEMORY_COMM,
                            what);
}

ls_status lsi_reducer_new(lsi_reducer **out, ls_group *channel,
                          const lsi_reducer_plan *plan)
{
    lsi_reducer *r = NULL;
    lsi_range *layout = NULL;
    ls_status status = alloc_plan(&r, plan->n, &layout);
    status = lsi_agree_to_plan(channel, status);
    if (status == LS_OK) {
        assert(r != NULL && layout != NULL); /* or it would not have agreed */
        r->channel = channel;
        r->start = plan->start;
        r->one_at_a_time = plan->one_at_a_time;
        r->most = plan->most > 0 ? plan->most : SIZE_MAX;
        r->on_done = plan->done;
        r->context = plan->context;
        r->ended = lsi_clock_seconds();
        status = plan_buckets(r, channel, plan, layout,
                              lsi_bucket_layout(plan->spans, plan->n,
                                                plan->bucket_bytes, layout));
    }
    lsi_free(layout);
    if (status != LS_OK) {
        lsi_reducer_free(&r);
        return status;
    }
    *out = r;
    return LS_OK;
}

void lsi_reducer_free(lsi_reducer **reducer)
{
    lsi_reducer *const r = *reducer;
    if (r == NULL)
        return;
    for (size_t i = 0; i < r->buckets; i++)
        ls_request_free(&r->bucket[i].request);
    lsi_free(r->bucket);
    lsi_free(r->bucket_of);
    lsi_free(r->ready);
    lsi_free(r);
    *reducer = NULL;
}

/* ---- reducing ------------------------------------------------------------ */

ls_status lsi_reducer_begin(lsi_reducer *r)
{
    if (r->open)
        return lsi_fail(LS_ERR_STATE,
                        "the previous gradient reduction is not finished");
    assert(r->done == r->started);
    for (size_t b = 0; b < r->buckets; b++)
        r->bucket[b].missing = r->bucket[b].spans;
    memset(r->ready, 0, r->n * sizeof(bool));
    r->started = r->done = 0;
    r->open = true;
    r->holds = r->one_at_a_time;
    return LS_OK;
}

static bool may_start(const lsi_reducer *r)
{
    return r->started < r->buckets && r->started - r->done < r->most;
}

static ls_status start_next(lsi_reducer *r)
{
    assert(may_start(r));
    LS_TRY(ls_start(r->bucket[r->started].request));
    r->started++;
    return LS_OK;
}

/*
 * Starts the buckets that are final. The extra floats after the last one may
 * have to wait for finish.
 */
static ls_status start_final(lsi_reducer *r)
{
    while (may_start(r) && r->bucket[r->started].spans > 0 &&
           r->bucket[r->started].missing == 0)
        LS_TRY(start_next(r));
    return LS_OK;
}

/* The next bucket has arrived, or failed. */
static ls_status end_next(lsi_reducer *r, ls_status status)
{
    assert(r->done < r->started);
    const bucket *const b = &r->bucket[r->done++];
    if (status == LS_OK && r->on_done != NULL && b->spans > 0)
        r->on_done(r->context, (lsi_range){b->first, b->first + b->spans});
    return status;
}

/* Advances the buckets in flight. */
static ls_status poll(lsi_reducer *r)
{
    while (r->done < r->started) {
        const ls_status status = ls_test(r->bucket[r->done].request);
        if (status == LS_IN_PROGRESS)
            return LS_OK;
        LS_TRY(end_next(r, status));
        LS_TRY(start_final(r));
    }
    return LS_OK;
}

/*
 * Waits until at most one bucket is in flight. Another rank may need this rank
 * elsewhere before it reaches the bucket; so this rank gives up, until the next
 * reduction, when nothing has moved for a while. The other ranks may be as much
 * slower as this rank's pass has taken.
 */
static ls_status wait_for_bucket(lsi_reducer *r)
{
    const double begin = lsi_clock_seconds();
    const double most = HOLD_SECONDS + begin - r->ended;
    uint64_t activity = r->channel->activity;
    double now = begin, moved = begin;
    while (r->started - r->done > 1 && now - moved < most) {
        if (now - begin < SPIN_SECONDS)
            sched_yield();
        else
            nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
        LS_TRY(poll(r));
        now = lsi_clock_seconds();
        if (r->channel->activity != activity)
            moved = now;
        activity = r->channel->activity;
    }
    r->holds = now - moved < most;
    r->waited += now - begin;
    return LS_OK;
}

ls_status lsi_reducer_ready(lsi_reducer *r, size_t i)
{
    if (!r->open)
        return lsi_fail(LS_ERR_STATE,
                        "gradient %zu is ready, but no reduction has begun", i);
    if (i >= r->n || r->ready[i])
        return lsi_fail(LS_ERR_ARGUMENT,
                        i >= r->n ? "gradient %zu does not exist"
                                  : "gradient %zu was reported ready twice",
                        i);
    r->ready[i] = true;
    assert(r->bucket[r->bucket_of[i]].missing > 0);
    r->bucket[r->bucket_of[i]].missing--;
    if (r->start != LSI_START_READY)
        return LS_OK;
    LS_TRY(start_final(r));
    LS_TRY(poll(r));
    return r->holds ? wait_for_bucket(r) : LS_OK;
}

bool lsi_reducer_is_ready(const lsi_reducer *r, size_t i)
{
    assert(i < r->n);
    return r->ready[i];
}

static ls_status finish(lsi_reducer *r)
{
    while (r->done < r->buckets) {
        while (may_start(r) &&
               (r->start != LSI_START_IN_TURN || r->started == r->done))
            LS_TRY(start_next(r));
        LS_TRY(end_next(r, ls_wait(r->bucket[r->done].request)));
    }
    assert(r->started == r->buckets);
    return LS_OK;
}

ls_status lsi_reducer_finish(lsi_reducer *r)
{
    const double begin = lsi_clock_seconds();
    r->open = false;
    ls_status status = finish(r);
    if (status != LS_OK)
        status = lsi_reducer_refuse(r, status);
    r->ended = lsi_clock_seconds();
    r->waited += r->ended - begin;
    return status;
}

ls_status lsi_reducer_refuse(lsi_reducer *r, ls_status status)
{
    lsi_error error = {.status = LS_OK};
    (void)lsi_error_keep(&error, status);
    r->open = false;
    while (r->done < r->started)
        ls_ignore(ls_wait(r->bucket[r->done++].request));
    (void)lsi_error_again(&error);
    for (; r->started < r->buckets; r->done = ++r->started)
        (void)lsi_refuse_planned(r->bucket[r->started].request, status);
    return lsi_error_again(&error);
}

double lsi_reducer_waited(const lsi_reducer *r)
{
    return r->waited;
}

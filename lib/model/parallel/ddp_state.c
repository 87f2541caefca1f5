/*
 * What the forms of data parallelism share: making, planning, one sync.
 */
#include "model/parallel/ddp_state.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "array/compute/array.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/structs.h"
#include "comm/api/group.h"
#include "comm/api/same.h"
#include "comm/core/agree.h"
#include "model/parallel/shard.h"

/* ---- making -------------------------------------------------------------- */

static const char what[] = "data parallelism"; /* for the allocator */

static ls_status alloc_spans(ls_ddp *ddp, size_t spans, size_t indices)
{
    LS_TRY(lsi_alloc_zeroed(&ddp->spans, spans * sizeof(lsi_grad_range),
                            LS_MEMORY_COMM, what));
    LS_TRY(lsi_alloc_zeroed(&ddp->unused, spans * sizeof(bool), LS_MEMORY_COMM,
                            what));
    LS_TRY(lsi_alloc_zeroed(&ddp->index_of, spans * sizeof(size_t),
                            LS_MEMORY_COMM, what));
    LS_TRY(lsi_alloc_zeroed(&ddp->span_of, indices * sizeof(size_t),
                            LS_MEMORY_COMM, what));
    for (size_t i = 0; i < indices; i++)
        ddp->span_of[i] = SIZE_MAX;
    return LS_OK;
}

ls_status lsi_ddp_make(ls_ddp **out, ls_group *group, size_t spans,
                       size_t indices)
{
    ls_ddp *ddp = NULL;
    ls_status status =
        lsi_alloc_zeroed(&ddp, sizeof(ls_ddp), LS_MEMORY_COMM, what);
    if (status == LS_OK) {
        ddp->group = group;
        ddp->loss_scale = 1;
        ddp->scale = 1;
        status = alloc_spans(ddp, spans, indices);
    }
    status = lsi_agree_to_plan(group, status);
    if (status == LS_OK)
        status = lsi_group_dup(group, &ddp->channel);
    if (status != LS_OK) {
        ls_ddp_free(&ddp);
        return status;
    }
    *out = ddp;
    return LS_OK;
}

void ls_ddp_free(ls_ddp **out)
{
    if (out == NULL || *out == NULL)
        return;
    ls_ddp *const ddp = *out;
    *out = NULL;
    lsi_ddp_abandon(ddp);
    if (ddp->params != NULL && ddp->params->sharing.owner == &ddp->owner)
        lsi_params_disown(ddp->params);
    lsi_reducer_free(&ddp->reducer);
    ls_group_close(&ddp->channel);
    if (ddp->own_extra) {
        void *shared = ddp->extra.data;
        (void)ls_shared_free(ddp->group, &shared);
    }
    lsi_free(ddp->span_of);
    lsi_free(ddp->index_of);
    lsi_free(ddp->unused);
    lsi_free(ddp->spans);
    lsi_free(ddp);
}

void lsi_ddp_add_span(ls_ddp *ddp, size_t index, lsi_grad_range span)
{
    assert(ddp->span_of[index] == SIZE_MAX);
    ddp->index_of[ddp->n] = index;
    ddp->span_of[index] = ddp->n;
    ddp->spans[ddp->n++] = span;
}

/* ---- planning ------------------------------------------------------------ */

ls_status lsi_ddp_read_options(ls_ddp_options *out, const ls_ddp_options *given)
{
    *out = ls_ddp_defaults();
    return given != NULL
               ? LSI_STRUCT_READ(out, given, ls_ddp_options, unused_as_zero)
               : LS_OK;
}

static void options_line(const void *list, size_t i, char text[LSI_LINE_BYTES])
{
    const ls_ddp_options *const options = list;
    (void)i;
    snprintf(text, LSI_LINE_BYTES,
             "strategy %s, bucket_mb %.17g, unused_as_zero %d",
             ls_ddp_strategy_name(options->strategy), options->bucket_mb,
             options->unused_as_zero);
}

/* Whether all ranks can take part and want the same. */
static ls_status agree(const ls_ddp *ddp, const ls_ddp_options *options,
                       ls_status status)
{
    LS_TRY(lsi_agree_to_plan(ddp->channel, status));
    return lsi_same_listing(ddp->channel,
                            &(lsi_listing){options, 1, options_line,
                                           "options of data parallelism"});
}

static void range_line(const void *list, size_t i, char text[LSI_LINE_BYTES])
{
    const lsi_grad_range *const spans = list;
    snprintf(text, LSI_LINE_BYTES, "range %zu of %zu floats", i,
             spans[i].count);
}

static ls_status same_model(const ls_ddp *ddp)
{
    return ddp->params != NULL
               ? lsi_params_same(ddp->params, ddp->channel)
               : lsi_same_listing(
                     ddp->channel,
                     &(lsi_listing){ddp->spans, ddp->n, range_line, "model"});
}

ls_status lsi_ddp_plan(ls_ddp *ddp, const ls_ddp_options *options,
                       ls_status status)
{
    const lsi_strategy *strategy = NULL;
    uint64_t bucket_bytes = 0;
    if (status == LS_OK)
        status = lsi_strategy_of(options, &strategy, &bucket_bytes);
    LS_TRY(agree(ddp, options, status));
    assert(strategy != NULL);
    LS_TRY(same_model(ddp));
    size_t floats = 0;
    for (size_t i = 0; i < ddp->n; i++)
        floats += ddp->spans[i].extent;
    ddp->unused_as_zero = options->unused_as_zero;
    ddp->strategy = strategy;
    if (strategy->share >= LSI_SHARE_STATE)
        ddp->shard = lsi_shard_size(floats, ls_group_size(ddp->group));
    const bool divided = strategy->share == LSI_SHARE_ALL;
    const lsi_reducer_plan plan = {.spans = ddp->spans,
                                   .n = ddp->n,
                                   .bucket_bytes = bucket_bytes,
                                   .start = strategy->start,
                                   .extra = ddp->extra,
                                   .shard = ddp->shard,
                                   .one_at_a_time =
                                       divided && !options->unused_as_zero,
                                   .done = divided ? lsi_ddp_drop : NULL,
                                   .context = ddp};
    return lsi_reducer_new(&ddp->reducer, ddp->channel, &plan);
}

/* ---- a sync -------------------------------------------------------------- */

ls_status lsi_ddp_check_weight(double weight)
{
    if (!(weight >= 0) || isinf(weight))
        return lsi_fail(LS_ERR_ARGUMENT,
                        "weight %g: the number of samples must be finite and "
                        "not negative",
                        weight);
    return LS_OK;
}

ls_status ls_ddp_join(ls_ddp *ddp, bool have_batch, bool *any)
{
    LS_NEED(ddp, any);
    int32_t have = have_batch;
    LS_TRY(ls_all_reduce(ddp->channel, &have, &have, 1, LS_I32, LS_MAX));
    *any = have != 0;
    return LS_OK;
}

ls_status lsi_ddp_begin(ls_ddp *ddp)
{
    LS_TRY(lsi_reducer_begin(ddp->reducer));
    ddp->extra.data[LSI_EXTRA_WEIGHT] = (float)ddp->weight;
    ddp->extra.data[LSI_EXTRA_UNUSED] = 0;
    lsi_ddp_tell_news(ddp);
    memset(ddp->unused, 0, ddp->n * sizeof(bool));
    ddp->syncing = true;
    return LS_OK;
}

/* ---- news ---------------------------------------------------------------- */

void lsi_ddp_watch_news(ls_ddp *ddp, const atomic_uint *news)
{
    ddp->news = news;
}

unsigned lsi_ddp_news(const ls_ddp *ddp)
{
    return ddp->heard;
}

void lsi_ddp_tell_news(ls_ddp *ddp)
{
    const unsigned news = ddp->news != NULL ? atomic_load(ddp->news) : 0;
    for (unsigned i = 0; i < LSI_DDP_NEWS; i++)
        ddp->extra.data[LSI_EXTRA_NEWS + i] = (float)(news >> i & 1U);
}

static unsigned hear(const float *extra)
{
    unsigned heard = 0;
    for (unsigned i = 0; i < LSI_DDP_NEWS; i++)
        heard |= (extra[LSI_EXTRA_NEWS + i] > 0 ? 1U : 0) << i;
    return heard;
}

/* ---- spans and the end --------------------------------------------------- */

void lsi_ddp_set_unused(ls_ddp *ddp, size_t span)
{
    const lsi_grad_range *const s = &ddp->spans[span];
    assert(ddp->syncing && !ddp->unused[span]);
    lsi_array_zero(s->data, LS_F32, s->extent);
    if (!ddp->has_loss)
        return; /* a rank without samples need not use anything */
    ddp->unused[span] = true;
    /* A span is missing, so this has not started to travel. */
    float *const unused = ddp->extra.data + LSI_EXTRA_UNUSED;
    *unused += 1;
}

ls_status lsi_ddp_finish(ls_ddp *ddp, lsi_ddp_describe describe)
{
    const float *const extra = ddp->extra.data;
    assert(ddp->syncing);
    ddp->syncing = false;
    LS_TRY(lsi_reducer_finish(ddp->reducer));
    /* No sample anywhere: the gradients are zero and stay so. */
    const double weight = (double)extra[LSI_EXTRA_WEIGHT];
    ddp->scale = weight > 0 ? 1.0 / (weight * ddp->loss_scale) : 1.0;
    ddp->heard = hear(extra);
    ls_status status = LS_OK;
    if (extra[LSI_EXTRA_UNUSED] > 0 && !ddp->unused_as_zero)
        status = lsi_ddp_name_unused(ddp, describe);
    lsi_ddp_forget(ddp);
    return status;
}

void lsi_ddp_forget(ls_ddp *ddp)
{
    ddp->weight = 0;
    ddp->unsynced = 0;
    ddp->has_loss = false;
    ddp->spoiled = false;
}

static void scale(const ls_ddp *ddp, float *data, size_t count)
{
    lsi_array_scale(data, data, (float)ddp->scale, count);
}

void lsi_ddp_scale(ls_ddp *ddp)
{
    if (ddp->scale == 1)
        return;
    if (ddp->shard > 0) { /* the sums of a rank's part are all it has */
        const lsi_range own = ddp->owner.reduced;
        scale(ddp, ddp->spans[0].data + own.begin, lsi_range_size(own));
    }
    for (size_t i = 0; ddp->shard == 0 && i < ddp->n; i++)
        scale(ddp, ddp->spans[i].data, ddp->spans[i].count);
    ddp->scale = 1;
}

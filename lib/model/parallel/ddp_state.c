/*
 * The common part of the forms of data parallelism: making, planning, one sync.
 */
#include "model/parallel/ddp_state.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "array/compute/array.h"
#include "base/bits.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/structs.h"
#include "comm/api/group.h"
#include "comm/api/internode_swap.h"
#include "comm/api/same.h"
#include "comm/core/agree.h"
#include "model/parallel/grad_range.h"

/* ---- making -------------------------------------------------------------- */

static const char what[] = "data parallelism"; /* for the allocator */

enum { PREFETCH_LAYERS = 2 }; /* by default */

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
        ddp->replicas = 1;
        status = alloc_spans(ddp, spans, indices);
        if (status == LS_OK)
            status = lsi_comparison_init(&ddp->comparison, group);
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
    lsi_gather_free(&ddp->gather);
    if (ddp->params != NULL && ddp->params->sharing.owner == &ddp->owner)
        lsi_params_disown(ddp->params);
    lsi_reducer_free(&ddp->reducer);
    ls_group_close(&ddp->channel);
    if (ddp->own_extra) {
        void *shared = ddp->extra.data;
        ls_ignore(ls_shared_free(ddp->group, &shared));
    }
    lsi_comparison_release(&ddp->comparison);
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
    static const ls_ddp_options usual = LS_DDP_OPTIONS_INIT;
    LS_TRY(LSI_STRUCT_READ(out, given != NULL ? given : &usual, ls_ddp_options,
                           unused_as_zero));
    if (out->strategy == LS_DDP_DEFAULT)
        out->strategy = LS_DDP_FLAT;
    if (out->prefetch_layers == 0)
        out->prefetch_layers = PREFETCH_LAYERS;
    else if (out->prefetch_layers == LS_DDP_NO_PREFETCH)
        out->prefetch_layers = 0;
    return LS_OK;
}

static void options_line(const void *list, size_t i, char text[LSI_LINE_BYTES])
{
    const ls_ddp_options *const options = list;
    (void)i;
    snprintf(text, LSI_LINE_BYTES,
             "strategy %s, bucket_bytes %zu, unused_as_zero %d, "
             "prefetch_layers %zu, shard_over %zu, %s bits",
             ls_ddp_strategy_name(options->strategy), options->bucket_bytes,
             options->unused_as_zero, options->prefetch_layers,
             options->shard_over, lsi_bits_name(ls_bits_in_use()));
}

/* Checks that all ranks can take part and have equal options. */
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
    snprintf(text, LSI_LINE_BYTES, "range %zu (%zu floats)", i, spans[i].count);
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
        status = lsi_strategy_of(options, lsi_node_count(ddp->group), &strategy,
                                 &bucket_bytes);
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
    const lsi_reducer_plan plan = {
        .spans = ddp->spans,
        .n = ddp->n,
        .bucket_bytes = bucket_bytes,
        .start = strategy->start,
        .extra = ddp->extra,
        .shard = ddp->shard,
        .one_at_a_time = divided && !options->unused_as_zero,
        .most = divided && !lsi_ddp_on_one_node(ddp) ? 2 : 0,
        .done = divided ? lsi_ddp_drop : NULL,
        .context = ddp};
    return lsi_reducer_new(&ddp->reducer, ddp->channel, &plan);
}

/* ---- a sync -------------------------------------------------------------- */

ls_status lsi_ddp_check_weight(double weight)
{
    if (!(weight >= 0) || isinf(weight))
        return lsi_fail(LS_ERR_ARGUMENT,
                        "weight is %g; it is the number of samples, and must "
                        "be finite and at least 0",
                        weight);
    return LS_OK;
}

ls_status ls_ddp_join(ls_ddp *ddp, bool have_batch, bool *any)
{
    LS_NEED(ddp, any);
    int32_t have = have_batch;
    LS_TRY(ls_all_reduce(ddp->channel, &have, &have, 1, LS_I32, LS_REDUCE_MAX));
    *any = have != 0;
    return LS_OK;
}

ls_status lsi_ddp_begin(ls_ddp *ddp)
{
    LS_TRY(lsi_reducer_begin(ddp->reducer));
    ddp->extra.data[LSI_EXTRA_WEIGHT] = (float)ddp->weight;
    ddp->extra.data[LSI_EXTRA_UNUSED] = 0;
    ddp->extra.data[LSI_EXTRA_LOSS] = (float)(ddp->loss / LSI_DDP_LOSS_UNIT);
    lsi_ddp_write_flags(ddp);
    memset(ddp->unused, 0, ddp->n * sizeof(bool));
    ddp->syncing = true;
    return LS_OK;
}

/* ---- flags --------------------------------------------------------------- */

void lsi_ddp_watch_flags(ls_ddp *ddp, const atomic_uint *flags)
{
    ddp->local_flags = flags;
}

unsigned lsi_ddp_all_flags(const ls_ddp *ddp)
{
    return ddp->all_flags;
}

void lsi_ddp_write_flags(ls_ddp *ddp)
{
    const unsigned flags =
        ddp->local_flags != NULL ? atomic_load(ddp->local_flags) : 0;
    for (unsigned i = 0; i < LSI_DDP_FLAGS; i++)
        ddp->extra.data[LSI_EXTRA_FLAGS + i] = (float)(flags >> i & 1U);
}

static unsigned read_flags(const float *extra)
{
    unsigned flags = 0;
    for (unsigned i = 0; i < LSI_DDP_FLAGS; i++)
        flags |= (extra[LSI_EXTRA_FLAGS + i] > 0 ? 1U : 0) << i;
    return flags;
}

/* ---- naming unused spans ------------------------------------------------- */

void lsi_ddp_describe(const ls_ddp *ddp, size_t span, char *text, size_t bytes)
{
    const size_t index = ddp->index_of[span];
    if (ddp->params != NULL)
        snprintf(text, bytes, "%s", ls_params_name(ddp->params, index));
    else
        snprintf(text, bytes, "range %zu", index);
}

enum { TEXT_BYTES = 200, NAME_BYTES = 64 };

/* "rank 1: a, b, ..." if this rank has any, else "". */
static void describe_unused(const ls_ddp *ddp, char *text, size_t bytes)
{
    size_t at = 0;
    text[0] = '\0';
    for (size_t i = 0; i < ddp->n; i++) {
        char name[NAME_BYTES];
        if (!ddp->unused[i])
            continue;
        lsi_ddp_describe(ddp, i, name, sizeof(name));
        if (at + strlen(name) + 32 > bytes) {
            snprintf(text + at, bytes - at, ", ...");
            return;
        }
        if (at == 0)
            at = (size_t)snprintf(text, bytes, "rank %d: %s",
                                  ls_group_rank(ddp->group), name);
        else
            at += (size_t)snprintf(text + at, bytes - at, ", %s", name);
    }
}

static ls_status fail_with(const char *all, size_t bytes, bool own)
{
    char text[4 * TEXT_BYTES] = "";
    size_t at = 0;
    bool more = false;
    for (size_t i = 0; i < bytes; i += TEXT_BYTES) {
        if (all[i] == '\0')
            continue;
        more = at + TEXT_BYTES + 2 > sizeof(text);
        if (more)
            break;
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s",
                               at > 0 ? "; " : "", all + i);
    }
    return lsi_fail(LS_ERR_STATE,
                    own ? "gradients were not ready at ls_ddp_finish (%s%s): "
                          "call ls_ddp_ready for each, or set unused_as_zero"
                        : "the loss did not use all parameters (%s%s): freeze "
                          "them, use them, or set unused_as_zero",
                    text, more ? "; ..." : "");
}

/* Every rank gets the names from all ranks. */
static ls_status name_unused(const ls_ddp *ddp)
{
    char own[TEXT_BYTES] = "";
    const size_t size = (size_t)ls_group_size(ddp->group);
    describe_unused(ddp, own, sizeof(own));
    char *const all = malloc(size * sizeof(own));
    ls_status status = LS_OK;
    if (all == NULL)
        status = lsi_fail(LS_ERR_MEMORY,
                          "not enough memory to name unused parameters");
    status = lsi_agree_to_plan(ddp->channel, status);
    if (status == LS_OK) {
        assert(all != NULL); /* or this rank would not have agreed */
        status = ls_all_gather(ddp->channel, own, all, sizeof(own), LS_U8);
        if (status == LS_OK)
            status = fail_with(all, size * sizeof(own), ddp->begun);
    }
    free(all);
    return status;
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
    /* A span is missing, so the extra floats are not in flight yet. */
    float *const unused = ddp->extra.data + LSI_EXTRA_UNUSED;
    *unused += 1;
}

ls_status lsi_ddp_finish(ls_ddp *ddp)
{
    const float *const extra = ddp->extra.data;
    assert(ddp->syncing);
    ddp->syncing = false;
    LS_TRY(lsi_reducer_finish(ddp->reducer));
    /* No sample anywhere: the gradients are zero and stay so. */
    const double weight = (double)extra[LSI_EXTRA_WEIGHT];
    ddp->scale = weight > 0 ? 1.0 / (weight * ddp->loss_scale) : 1.0;
    ddp->mean = weight > 0
                    ? LSI_DDP_LOSS_UNIT * (double)extra[LSI_EXTRA_LOSS] / weight
                    : 0;
    ddp->all_flags = read_flags(extra);
    ls_status status = LS_OK;
    if (extra[LSI_EXTRA_UNUSED] > 0 && !ddp->unused_as_zero)
        status = name_unused(ddp);
    lsi_ddp_forget(ddp);
    return status;
}

ls_status lsi_ddp_check_synced(const ls_ddp *ddp, const char *start,
                               const char *advice)
{
    if (ddp->unsynced == 0)
        return LS_OK;
    return lsi_fail(LS_ERR_STATE,
                    "%sgradients are not synchronised yet (micro-steps: %zu); "
                    "%s",
                    start, ddp->unsynced, advice);
}

void lsi_ddp_forget(ls_ddp *ddp)
{
    ddp->weight = 0;
    ddp->loss = 0;
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

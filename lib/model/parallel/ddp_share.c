/*
 * Sharing of weights and optimizer state: the parts that a rank owns, and the
 * communication around an optimizer's step.
 *
 * The optimizer does not know of it: it is made for the elements that the rank
 * owns, and the parameter set reports its steps.
 */
#include "array/compute/threads.h"
#include "base/clock.h"
#include "base/error.h"
#include "comm/core/agree.h"
#include "comm/node/shared.h"
#include "model/autograd/params/halves.h"
#include "model/parallel/ddp_state.h"
#include "model/parallel/grad_range.h"
#include "model/tensor/tensor.h"

/* The floats of whole spans. */
static lsi_range floats_of(const ls_ddp *ddp, lsi_range spans)
{
    size_t count;
    const float *const base = ls_params_flat_grad(ddp->params, &count);
    if (spans.begin >= spans.end)
        return (lsi_range){0, 0};
    const lsi_grad_range *const last = &ddp->spans[spans.end - 1];
    return (lsi_range){(size_t)(ddp->spans[spans.begin].data - base),
                       (size_t)(last->data + last->extent - base)};
}

/* The range that this rank's optimizer updates. */
static lsi_range own_part(const ls_ddp *ddp, size_t count)
{
    const int size = ls_group_size(ddp->group);
    const int rank = ls_group_rank(ddp->group);
    if (ddp->strategy->share == LSI_SHARE_TENSORS)
        return floats_of(ddp, lsi_shard_spans(ddp->spans, ddp->n, size, rank));
    return lsi_shard_of(count, ddp->shard, rank);
}

static lsi_weights_home home_of(const ls_ddp *ddp)
{
    return lsi_home_of(ddp->strategy, ddp->group, ddp->replicas);
}

/* Brings what ranks of other nodes own and this node keeps, too. */
static ls_status swap_replicas(const ls_ddp *ddp)
{
    ls_params *const params = ddp->params;
    if (ddp->replicas == 1)
        return LS_OK;
    LS_TRY(lsi_internode_swap(ddp->channel, params->storage.flat,
                              ddp->shard * sizeof(float), ddp->replicas));
    if (params->sharing.frozen_changed && params->sharing.frozen_shard > 0)
        LS_TRY(lsi_internode_swap(
            ddp->channel, params->storage.flat + params->sharing.frozen_begin,
            params->sharing.frozen_shard * sizeof(float), ddp->replicas));
    params->sharing.frozen_changed = false;
    for (int r = 0; r < ls_group_size(ddp->group); r++)
        if (lsi_internode_receives(ddp->group, r, ddp->replicas))
            lsi_params_round(
                params, lsi_shard_of(params->storage.count, ddp->shard, r));
    return LS_OK;
}

ls_status lsi_ddp_assign_part(ls_ddp *ddp)
{
    const lsi_sharding share = ddp->strategy->share;
    const size_t count = ddp->params->storage.count;
    ddp->owner.reduced = (lsi_range){0, count};
    if (share == LSI_SHARE_NOTHING)
        return LS_OK;
    /* Equal under each strategy, since the next ls_ddp may use another one. */
    const size_t shard = lsi_shard_size(count, ls_group_size(ddp->group));
    const lsi_range own = own_part(ddp, count);
    LS_TRY(lsi_agree_to_plan(ddp->group,
                             lsi_params_set_owned(ddp->params, &own, 1)));
    if (share == LSI_SHARE_TENSORS)
        return ddp->params->storage.scattered
                   ? LS_OK /* the program's memory stays in use */
                   : lsi_params_share(ddp->params, ddp->group, shard,
                                      LSI_HOME_COPIES, 1);
    ddp->owner.reduced = own;
    LS_TRY(lsi_params_share(ddp->params, ddp->group, shard, home_of(ddp),
                            ddp->replicas));
    lsi_params_set_dropping(ddp->params, share == LSI_SHARE_ALL);
    if (home_of(ddp) != LSI_HOME_DIVIDED)
        return LS_OK;
    LS_TRY(lsi_gather_new(&ddp->gather, ddp->group, ddp->params, shard,
                          ddp->ahead));
    LS_TRY(swap_replicas(ddp));
    return ls_barrier(ddp->channel);
}

ls_status lsi_ddp_need(void *context, size_t index, lsi_weights_need need)
{
    const ls_ddp *const ddp = context;
    return lsi_gather_need(ddp->gather, index, need);
}

ls_status lsi_ddp_need_again(void *context, size_t index)
{
    const ls_ddp *const ddp = context;
    return lsi_gather_need_again(ddp->gather, index);
}

void lsi_ddp_drop(void *context, lsi_range spans)
{
    const ls_ddp *const ddp = context;
    lsi_params_drop_grads(ddp->params, floats_of(ddp, spans));
}

ls_status lsi_ddp_add_up(void *context, double *sums, size_t n)
{
    const ls_ddp *const ddp = context;
    if (ddp->strategy->share < LSI_SHARE_STATE)
        return LS_OK;
    return ls_all_reduce(ddp->channel, sums, sums, n, LS_F64, LS_REDUCE_SUM);
}

/* Broadcasts every span from the rank that owns it. */
static ls_status broadcast_spans(const ls_ddp *ddp)
{
    const int size = ls_group_size(ddp->group);
    for (int owner = 0; owner < size; owner++) {
        const lsi_range part = lsi_shard_spans(ddp->spans, ddp->n, size, owner);
        for (size_t i = part.begin; i < part.end; i++) {
            const ls_tensor *const tensor =
                ls_params_get(ddp->params, ddp->index_of[i]);
            LS_TRY(ls_broadcast(ddp->channel, lsi_tensor_raw(tensor),
                                ddp->spans[i].count, LS_F32, owner));
        }
    }
    return LS_OK;
}

static ls_status gather_shards(const ls_ddp *ddp)
{
    size_t count;
    float *const flat = ls_params_flat(ddp->params, &count);
    const size_t own = (size_t)ls_group_rank(ddp->group) * ddp->shard;
    return ls_all_gather(ddp->channel, flat + own, flat, ddp->shard, LS_F32);
}

/*
 * The rest is gathered when it is needed. A rank that cannot go on refuses a
 * barrier, so replicas exchange nothing before all have met in it.
 */
static ls_status settle_divided(const ls_ddp *ddp)
{
    lsi_params_round(ddp->params, ddp->owner.reduced);
    const ls_status status = lsi_gather_let_go(ddp->gather);
    if (status != LS_OK)
        return lsi_ddp_refuse_step(ddp, status);
    if (ddp->replicas > 1)
        LS_TRY(ls_barrier(ddp->channel));
    return swap_replicas(ddp);
}

/* Exchanges shards between nodes, each of which has one copy. */
static ls_status swap_shards(const ls_ddp *ddp)
{
    size_t count;
    if (lsi_ddp_on_one_node(ddp))
        return LS_OK;
    if (ddp->gather != NULL)
        return settle_divided(ddp);
    LS_TRY(lsi_internode_swap(ddp->channel, ls_params_flat(ddp->params, &count),
                              ddp->shard * sizeof(float),
                              lsi_node_count(ddp->group)));
    LS_TRY(ls_barrier(ddp->channel));
    /* Weights from other nodes were not rounded during their step. */
    lsi_params_round(ddp->params,
                     lsi_partition_aligned(
                         count, (size_t)ls_group_local_size(ddp->group),
                         (size_t)ls_group_local_rank(ddp->group), LSI_LINE));
    return LS_OK;
}

/* The other ranks get the error where they wait for this rank. */
ls_status lsi_ddp_refuse_step(const ls_ddp *ddp, ls_status status)
{
    const lsi_call barrier = {.operation = LSI_OP_BARRIER};
    if (ddp->strategy->share < LSI_SHARE_STATE)
        return status;
    return lsi_refuse(ddp->channel, &barrier, status);
}

ls_status lsi_ddp_before_step(ls_ddp *ddp)
{
    if (ddp->strategy->share < LSI_SHARE_STATE)
        return LS_OK;
    const double begin = lsi_clock_seconds();
    ls_status status =
        ddp->gather != NULL ? lsi_gather_let_go(ddp->gather) : LS_OK;
    status = status == LS_OK ? ls_barrier(ddp->channel)
                             : lsi_ddp_refuse_step(ddp, status);
    ddp->waited += lsi_clock_seconds() - begin;
    return status;
}

/* Bytes that are worth another thread. */
enum { PUSH_GRAIN = 1 << 18 };

typedef struct pushing {
    const ls_group *group;
    const unsigned char *data;
} pushing;

static void push_part(void *context, size_t begin, size_t end)
{
    const pushing *const p = context;
    lsi_shared_push(p->group, p->data + begin, end - begin);
}

/*
 * Gives other ranks the weights that this rank has updated, or rounds them.
 * Local.
 */
void lsi_ddp_moved(void *context, lsi_range range)
{
    ls_ddp *const ddp = context;
    if (ddp->strategy->share >= LSI_SHARE_WEIGHTS) {
        lsi_params_round(ddp->params, range);
        return;
    }
    const double begin = lsi_clock_seconds();
    size_t count;
    const float *const flat = ls_params_flat(ddp->params, &count);
    pushing p = {ddp->group, (const unsigned char *)(flat + range.begin)};
    const size_t bytes = lsi_range_size(range) * sizeof(float);
    lsi_parallel_for(bytes, PUSH_GRAIN, push_part, &p);
    lsi_shared_pushed(ddp->group, bytes);
    ddp->waited += lsi_clock_seconds() - begin;
}

static ls_status spread(const ls_ddp *ddp)
{
    switch (ddp->strategy->share) {
    case LSI_SHARE_NOTHING:
        return LS_OK;
    case LSI_SHARE_TENSORS:
        return broadcast_spans(ddp);
    case LSI_SHARE_STATE: /* on one node the weights are there already */
        if (!lsi_ddp_on_one_node(ddp))
            return gather_shards(ddp);
        break;
    case LSI_SHARE_WEIGHTS:
    case LSI_SHARE_ALL:
        LS_TRY(swap_shards(ddp));
        lsi_params_rounded(ddp->params);
        break;
    }
    return ls_barrier(ddp->channel);
}

ls_status lsi_ddp_after_step(void *context)
{
    ls_ddp *const ddp = context;
    const double begin = lsi_clock_seconds();
    const ls_status status = spread(ddp);
    ddp->waited += lsi_clock_seconds() - begin;
    return status;
}

#include "model/autograd/params/sharing.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "comm/api/internode_swap.h"
#include "comm/api/same.h"
#include "comm/api/shared_alloc.h"
#include "comm/core/agree.h"
#include "comm/node/huge.h"
#include "comm/node/shared.h"
#include "comm/node/transport.h"
#include "model/autograd/params.h"
#include "model/autograd/params/adopt.h"
#include "model/autograd/params/halves.h"
#include "model/tensor/tensor.h"

/* ---- ownership ----------------------------------------------------------- */

static void line_of(const void *list, size_t i, char text[LSI_LINE_BYTES])
{
    const ls_params *params = list;
    const size_t n = params->params.count;
    const lsi_param *p =
        i < n ? params->params.items[i] : params->buffers.items[i - n];
    const bool half = p->tensor->dtype != LS_F32;
    snprintf(text, LSI_LINE_BYTES, "%s '%.140s' %s%s%s%s%s",
             i >= n         ? "buffer"
             : p->trainable ? "parameter"
                            : "frozen parameter",
             p->name, lsi_shape_of(p->tensor).text, half ? " in " : "",
             half ? ls_dtype_name(p->tensor->dtype) : "",
             p->is_adopted ? ", adopted as " : "",
             p->is_adopted ? ls_dtype_name(p->adopted.dtype) : "");
}

ls_status lsi_params_same(const ls_params *params, ls_group *group)
{
    return lsi_same_listing(
        group,
        &(lsi_listing){params, params->params.count + params->buffers.count,
                       line_of, "model"});
}

ls_status lsi_params_set_owned(ls_params *params, const lsi_range *ranges,
                               size_t n)
{
    lsi_range *owned;
    assert(n == 0 || ranges[n - 1].end <= params->storage.count);
    LS_TRY(lsi_alloc(&owned, n * sizeof(lsi_range), LS_MEMORY_OTHER,
                     "the parameter ranges of a rank"));
    if (n > 0)
        memcpy(owned, ranges, n * sizeof(lsi_range));
    lsi_free(params->sharing.owned);
    params->sharing.owned = owned;
    params->sharing.n_owned = n;
    params->sharing.divisions++;
    return LS_OK;
}

void lsi_params_disown(ls_params *params)
{
    params->sharing.owner = NULL;
    if (params->sharing.owned == NULL)
        return;
    lsi_free(params->sharing.owned);
    params->sharing.owned = NULL;
    params->sharing.divisions++;
}

const lsi_range *lsi_params_owned(const ls_params *params, size_t *n)
{
    *n = params->sharing.owned != NULL ? params->sharing.n_owned : 1;
    return params->sharing.owned != NULL ? params->sharing.owned
                                         : &params->storage.whole;
}

/* ---- gradients ----------------------------------------------------------- */

/* Moves the charge: shared memory is counted as communication at first. */
static void move_charge(const ls_params *params, ls_memory_tag from,
                        ls_memory_tag to)
{
    lsi_memory_move((params->storage.count + LSI_GRAD_EXTRA) * sizeof(float),
                    from, to);
}

ls_status lsi_params_share_grads(ls_params *params, ls_group *group)
{
    const size_t count = params->storage.count + LSI_GRAD_EXTRA;
    assert(params->sharing.group == NULL);
    void *shared = NULL;
    LS_TRY(lsi_shared_alloc_sparse(group, count * sizeof(float), &shared));
    params->storage.flat_grad = shared;
    params->sharing.group = group;
    move_charge(params, LS_MEMORY_COMM, LS_MEMORY_GRADIENTS);
    return LS_OK;
}

void lsi_params_use_all_grads(ls_params *params)
{
    if (params->sharing.group != NULL)
        lsi_use_huge_pages(params->storage.flat_grad,
                           params->storage.count * sizeof(float));
}

void lsi_params_leave_grads(ls_params *params)
{
    void *shared = params->storage.flat_grad;
    move_charge(params, LS_MEMORY_GRADIENTS, LS_MEMORY_COMM);
    ls_ignore(ls_shared_free(params->sharing.group, &shared));
    params->sharing.group = NULL;
}

/* ---- parameters ---------------------------------------------------------- */

/*
 * Shared memory is counted as communication on every rank. This memory is for
 * parameters, and a rank is charged its part of a single copy.
 */
static void set_home(ls_params *params, ls_group *group, void *home,
                     size_t bytes, size_t counted)
{
    assert(params->sharing.home == NULL && counted <= bytes);
    lsi_memory_discharge(bytes - counted, LS_MEMORY_COMM);
    lsi_memory_move(counted, LS_MEMORY_COMM, LS_MEMORY_PARAMETERS);
    params->sharing.home = home;
    params->sharing.home_group = group;
    params->sharing.home_counted = counted;
    params->sharing.home_bytes = bytes;
}

static void attach(ls_params *params, float *flat)
{
    uint16_t *const halves = params->sharing.halves.first;
    for (size_t i = 0; i < params->params.count; i++) {
        lsi_param *const param = params->params.items[i];
        if (!param->trainable)
            continue;
        if (lsi_param_is_kept_half(param))
            param->tensor->storage->data = halves + param->offset;
        else
            param->tensor->storage->data = flat + param->offset;
        ls_tensor_free(&param->half); /* shared ones are elsewhere */
        param->half_shared = false;
    }
    params->storage.flat = flat;
    params->storage.scattered = false;
}

/*
 * The part of the node's copy that this rank makes: its own, or a share of
 * everything if other nodes' ranks own some of it.
 */
static lsi_range part_to_make(const ls_params *params, const ls_group *group,
                              lsi_weights_home kind)
{
    size_t n;
    const lsi_range *const owned = lsi_params_owned(params, &n);
    const size_t here = (size_t)ls_group_local_size(group);
    if (kind == LSI_HOME_DIVIDED || (int)here == ls_group_size(group))
        return owned[0];
    return lsi_partition_aligned(params->storage.count, here,
                                 (size_t)ls_group_local_rank(group), LSI_LINE);
}

/* Computes the initial values of a part. */
static void fill_part(ls_params *params, lsi_range made, float *flat)
{
    for (size_t i = 0; i < params->params.count; i++) {
        const lsi_param *const param = params->params.items[i];
        const size_t at = param->offset;
        const lsi_range part = lsi_range_common(
            made, (lsi_range){at, at + (size_t)param->tensor->count});
        if (param->trainable && !lsi_param_is_kept_half(param) &&
            part.begin < part.end)
            lsi_param_fill(param, (lsi_range){part.begin - at, part.end - at},
                           flat + part.begin);
    }
    lsi_params_fill_rest(params);
}

lsi_range lsi_params_frozen_part(const ls_params *params, int rank)
{
    const lsi_params_sharing *const s = &params->sharing;
    const size_t begin = s->frozen_begin + (size_t)rank * s->frozen_shard;
    return (lsi_range){begin, begin + s->frozen_shard};
}

/* Moves this rank's part of the frozen parameters to the node's copy. */
static void divide_frozen(ls_params *params, float *flat)
{
    lsi_params_storage *const s = &params->storage;
    const lsi_range own = lsi_params_frozen_part(
        params, ls_group_rank(params->sharing.home_group));
    for (size_t i = 0; i < params->params.count; i++) {
        lsi_param *const param = params->params.items[i];
        if (!lsi_param_is_in_frozen(param))
            continue;
        const float *const old = param->tensor->storage->data;
        param->offset += params->sharing.frozen_begin;
        const size_t at = param->offset;
        const lsi_range part = lsi_range_common(
            own, (lsi_range){at, at + (size_t)param->tensor->count});
        if (part.begin < part.end && old == NULL)
            lsi_param_fill(param, (lsi_range){part.begin - at, part.end - at},
                           flat + part.begin);
        else if (part.begin < part.end)
            memcpy(flat + part.begin, old + (part.begin - at),
                   lsi_range_size(part) * sizeof(float));
        param->tensor->storage->data = flat + at;
        ls_tensor_free(&param->half);
    }
    params->sharing.frozen_changed = true;
    lsi_free(s->frozen);
    s->frozen = NULL;
}

/* Copies this rank's part of private weights. */
static void copy_owned(const ls_params *params, float *flat)
{
    size_t ranges, n;
    const lsi_range *const owned = lsi_params_owned(params, &ranges);
    for (size_t i = 0; i < ranges; i++) {
        for (size_t at = owned[i].begin; at < owned[i].end; at += n) {
            n = owned[i].end - at;
            const float *const from = lsi_params_weights(params, at, &n);
            if (from != NULL)
                memcpy(flat + at, from, n * sizeof(float));
        }
    }
}

/*
 * Copies the weights to their new home and attaches them there. Weights that
 * nobody has looked at yet are computed there: each rank's by itself.
 */
static ls_status move_weights(ls_params *params, ls_group *group, void *home,
                              lsi_weights_home kind)
{
    const bool one = kind != LSI_HOME_COPIES;
    float *const flat = one ? lsi_shared_first_here(group, home) : home;
    if (kind == LSI_HOME_DIVIDED)
        divide_frozen(params, flat);
    if (one && atomic_load(&params->storage.unfilled))
        fill_part(params, part_to_make(params, group, kind), flat);
    else if (kind == LSI_HOME_DIVIDED)
        copy_owned(params, flat);
    else if (!one || ls_group_local_rank(group) == 0)
        lsi_params_copy_weights(params, home);
    lsi_free(params->storage.flat);
    attach(params, flat);
    params->sharing.one_copy = one;
    params->sharing.divided = kind == LSI_HOME_DIVIDED;
    return one ? ls_barrier(group) : LS_OK;
}

/* Notes the parts that this node keeps. */
static ls_status find_parts_here(ls_params *params, const ls_group *group,
                                 size_t shard)
{
    lsi_range *here;
    size_t n = 0;
    LS_TRY(lsi_alloc(&here,
                     (size_t)ls_group_size(group) * 2 * sizeof(lsi_range),
                     LS_MEMORY_OTHER, "the parameter ranges of a node"));
    for (int r = 0; r < ls_group_size(group); r++) {
        const lsi_range part = {(size_t)r * shard, (size_t)(r + 1) * shard};
        if (!lsi_node_is_replica(group, r, params->sharing.replicas))
            continue;
        here[n++] = part;
        here[n++] = lsi_params_frozen_part(params, r);
    }
    assert(n >= (size_t)ls_group_local_size(group) * 2);
    params->sharing.here = here;
    params->sharing.n_here = n;
    return LS_OK;
}

/* ---- weights that other nodes own ---------------------------------------- */

/* Returns the number of an element that the address is in; count: none. */
static size_t element_at(const lsi_page_guard *guard, const void *address,
                         size_t count)
{
    const uintptr_t begin = (uintptr_t)guard->data;
    const uintptr_t at = (uintptr_t)address;
    return at < begin || (at - begin) / guard->size >= count
               ? count
               : (at - begin) / guard->size;
}

/* Elements of the node's copy. */
static size_t count_of(const ls_params *params)
{
    const int size = ls_group_size(params->sharing.home_group);
    return lsi_params_frozen_part(params, size - 1).end;
}

/* The parameter that the address is in, for a signal handler. */
static const char *name_at(const void *context, const void *address)
{
    const ls_params *const params = context;
    const size_t count = count_of(params);
    size_t at = element_at(&params->sharing.guard, address, count);
    if (at == count)
        at = element_at(&params->sharing.halves.guard, address, count);
    for (size_t i = 0; at < count && i < params->params.count; i++) {
        const lsi_param *const p = params->params.items[i];
        if (lsi_param_is_divided(p) && at >= p->offset &&
            at - p->offset < (size_t)p->tensor->count)
            return p->name;
    }
    return NULL;
}

/* They are open only while this rank uses them; see lsi_gather. */
static ls_status guard_absent(ls_params *params, const ls_group *group,
                              void *home)
{
    lsi_params_sharing *const s = &params->sharing;
    const size_t count = count_of(params);
    /* Threads would close what others use; but they are of one node. */
    assert(ls_group_local_size(group) == 1 ||
           !group->channels.local->memory.node->transport->one_address_space);
    LS_TRY(lsi_page_guard_new(&s->guard, lsi_shared_first_here(group, home),
                              sizeof(float), count, s->here, s->n_here));
    LS_TRY(lsi_page_guard_new(&s->halves.guard, s->halves.first,
                              sizeof(uint16_t), count, s->here, s->n_here));
    s->guarded =
        (lsi_crash_place){name_at, params, ls_group_rank(group),
                          "other nodes hold its weights; call ls_params_fetch "
                          "before the access, and ls_params_release after it"};
    lsi_crash_place_add(&s->guarded);
    return LS_OK;
}

/* ---- homes --------------------------------------------------------------- */

static ls_status share_halves(ls_params *params, ls_group *group, size_t shard,
                              lsi_weights_home kind)
{
    const size_t capacity =
        (shard + params->sharing.frozen_shard) * (size_t)ls_group_size(group);
    ls_status status = LS_OK;
    if (kind == LSI_HOME_COPIES)
        return LS_OK;
    if (kind == LSI_HOME_DIVIDED)
        status = find_parts_here(params, group, shard);
    else
        status = lsi_params_alloc_frozen(params);
    LS_TRY(lsi_agree_to_plan(group, status));
    return lsi_params_share_halves(params, group, capacity);
}

/* Bytes of a rank's share of what the node keeps. */
static size_t part_of(const ls_params *params, const ls_group *group,
                      size_t bytes, lsi_weights_home kind)
{
    const size_t size = (size_t)ls_group_size(group);
    size_t kept = 0;
    if (kind == LSI_HOME_COPIES)
        return bytes;
    for (int r = 0; r < ls_group_size(group); r++)
        kept += kind == LSI_HOME_ONE ||
                lsi_node_is_replica(group, r, params->sharing.replicas);
    return bytes / size * kept / (size_t)ls_group_local_size(group);
}

/* Bytes that weights which are kept as halves do not take in f32. */
static size_t bytes_saved(const ls_params *params)
{
    size_t floats = 0;
    for (size_t i = 0; i < params->params.count; i++)
        if (lsi_param_is_kept_half(params->params.items[i]))
            floats += lsi_range_size(lsi_params_range(params, i));
    return floats * (sizeof(float) - sizeof(uint16_t));
}

static void use_huge_pages_of(const ls_params *params, const ls_group *group,
                              lsi_range part)
{
    const size_t n = lsi_range_size(part);
    float *const flat = lsi_shared_first_here(group, params->sharing.home);
    if (params->storage.half != LS_F32)
        lsi_use_huge_pages(params->sharing.halves.first + part.begin,
                           n * sizeof(uint16_t));
    else
        lsi_use_huge_pages(flat + part.begin, n * sizeof(float));
}

/* The pages of the parts that this rank writes before others read them. */
static void use_huge_pages(const ls_params *params, const ls_group *group,
                           size_t shard, lsi_weights_home kind)
{
    use_huge_pages_of(params, group, part_to_make(params, group, kind));
    for (int r = 0; r < ls_group_size(group); r++) {
        if (kind == LSI_HOME_DIVIDED &&
            lsi_internode_receives(group, r, params->sharing.replicas))
            use_huge_pages_of(
                params, group,
                (lsi_range){(size_t)r * shard, (size_t)(r + 1) * shard});
    }
}

static bool is_there(const ls_params *params, const ls_group *group,
                     lsi_weights_home kind, int replicas)
{
    const lsi_params_sharing *const s = &params->sharing;
    return s->home_group == group && s->one_copy == (kind != LSI_HOME_COPIES) &&
           s->divided == (kind == LSI_HOME_DIVIDED) &&
           (!s->divided || s->replicas == replicas);
}

/* Whole parameters begin at such a boundary, too. */
static size_t frozen_shard(const ls_params *params, size_t ranks)
{
    const size_t each = (params->storage.frozen_count + ranks - 1) / ranks;
    return (each + LSI_PARAM_ALIGN - 1) / LSI_PARAM_ALIGN * LSI_PARAM_ALIGN;
}

ls_status lsi_params_share(ls_params *params, ls_group *group, size_t shard,
                           lsi_weights_home kind, int replicas)
{
    void *home = NULL;
    const size_t ranks = (size_t)ls_group_size(group);
    const size_t frozen =
        kind == LSI_HOME_DIVIDED ? frozen_shard(params, ranks) : 0;
    const size_t bytes = (shard + frozen) * ranks * sizeof(float);
    if (params->sharing.home != NULL && is_there(params, group, kind, replicas))
        return LS_OK;
    if (params->sharing.home != NULL)
        return lsi_fail(
            LS_ERR_STATE,
            "these parameters are already in shared memory of another group or "
            "strategy; free this ls_params and create a new one");
    assert(bytes >= params->storage.count * sizeof(float));
    LS_TRY(kind != LSI_HOME_COPIES
               ? lsi_shared_alloc_sparse(group, bytes, &home)
               : ls_shared_alloc(group, bytes, &home));
    params->sharing.replicas = replicas;
    set_home(params, group, home, bytes,
             part_of(params, group, bytes - bytes_saved(params), kind));
    params->sharing.frozen_begin = shard * ranks;
    params->sharing.frozen_shard = frozen;
    ls_status status = share_halves(params, group, shard, kind);
    if (status == LS_OK && kind != LSI_HOME_COPIES)
        use_huge_pages(params, group, shard, kind);
    if (status == LS_OK && kind == LSI_HOME_DIVIDED)
        status = lsi_agree_to_plan(group, guard_absent(params, group, home));
    if (status != LS_OK) {
        lsi_params_leave_home(params);
        return status;
    }
    return move_weights(params, group, home, kind);
}

void lsi_params_leave_home(ls_params *params)
{
    const size_t counted = params->sharing.home_counted;
    lsi_crash_place_remove(&params->sharing.guarded);
    lsi_page_guard_free(&params->sharing.guard);
    lsi_params_leave_halves(params);
    lsi_free(params->sharing.here);
    params->sharing.here = NULL;
    params->sharing.divided = false;
    lsi_memory_move(counted, LS_MEMORY_PARAMETERS, LS_MEMORY_COMM);
    lsi_memory_undo_discharge(params->sharing.home_bytes - counted,
                              LS_MEMORY_COMM);
    ls_ignore(
        ls_shared_free(params->sharing.home_group, &params->sharing.home));
}

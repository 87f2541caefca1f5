#include "model/autograd/params/halves.h"

#include <assert.h>
#include <sched.h>
#include <stdatomic.h>

#include "array/compute/array.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/half.h"
#include "base/memory.h"
#include "comm/api/shared_alloc.h"
#include "comm/node/shared.h"
#include "model/autograd/params.h"
#include "model/tensor/tensor.h"

enum { LINE = 64 };

/* A live rank holds the lock for a shorter time. */
static const double PATIENCE = 5; /* seconds */

/* Header after the halves of the first rank of a node. */
typedef struct header {
    _Atomic int type; /* ls_dtype + 1; 0 until halves are requested */
    atomic_bool busy; /* a rank checks a parameter */
} header;

static size_t header_at(size_t capacity)
{
    return (capacity * sizeof(uint16_t) + LINE - 1) / LINE * LINE;
}

ls_status lsi_params_share_halves(ls_params *params, ls_group *group,
                                  size_t capacity)
{
    const size_t bytes = header_at(capacity) + LINE;
    assert(params->sharing.halves.home == NULL);
    LS_TRY(lsi_shared_alloc_sparse(group, bytes, &params->sharing.halves.home));
    lsi_memory_discharge(bytes, LS_MEMORY_COMM);
    params->sharing.halves.bytes = bytes;
    params->sharing.halves.first =
        lsi_shared_first_here(group, params->sharing.halves.home);
    params->sharing.halves.header =
        (unsigned char *)params->sharing.halves.first + header_at(capacity);
    params->sharing.halves.counted = 0;
    if (ls_group_local_rank(group) == 0)
        *(header *)params->sharing.halves.header = (header){
            params->storage.half != LS_F32 ? (int)params->storage.half + 1 : 0,
            false};
    return LS_OK;
}

void lsi_params_leave_halves(ls_params *params)
{
    lsi_halves *const h = &params->sharing.halves;
    lsi_memory_discharge(h->counted, LS_MEMORY_PARAMETERS);
    lsi_page_guard_free(&h->guard);
    if (h->home != NULL) {
        lsi_memory_undo_discharge(h->bytes, LS_MEMORY_COMM);
        ls_ignore(ls_shared_free(params->sharing.home_group, &h->home));
    }
    *h = (lsi_halves){0};
}

/* Whether the shared halves are of this type; the first request decides. */
static bool is_ours(const lsi_halves *halves, ls_dtype dtype)
{
    header *const h = halves->header;
    const int wanted = (int)dtype + 1;
    int has = 0;
    return atomic_compare_exchange_strong(&h->type, &has, wanted) ||
           has == wanted;
}

/* Charges this rank's part of the halves: half of that of the weights. */
static ls_status charge_part(ls_params *params)
{
    const size_t part = params->sharing.home_counted / 2;
    if (params->sharing.halves.counted > 0)
        return LS_OK;
    LS_TRY(lsi_memory_charge(part, LS_MEMORY_PARAMETERS,
                             "16-bit copies of parameters"));
    params->sharing.halves.counted = part;
    return LS_OK;
}

ls_status lsi_param_half_place(lsi_param *param, ls_dtype dtype, void **out)
{
    ls_params *const params = param->set;
    *out = NULL;
    if (params->sharing.halves.home == NULL ||
        !(param->trainable || params->sharing.divided) ||
        !is_ours(&params->sharing.halves, dtype))
        return LS_OK;
    LS_TRY(charge_part(params));
    *out = params->sharing.halves.first + param->offset;
    return LS_OK;
}

/* ---- between steps ------------------------------------------------------- */

/*
 * A rank stops waiting for a holder that has died, and writes the same halves
 * that the holder would have written.
 */
static void lock(header *h)
{
    const double end = lsi_clock_seconds() + PATIENCE;
    while (atomic_exchange_explicit(&h->busy, true, memory_order_acquire) &&
           lsi_clock_seconds() < end)
        sched_yield();
}

static void unlock(header *h)
{
    atomic_store_explicit(&h->busy, false, memory_order_release);
}

typedef void round_fn(const ls_params *params, ls_dtype dtype,
                      lsi_range elements);

/* Rounds what is in f32 of a range; other weights are halves already. */
static void round_f32(const ls_params *params, ls_dtype dtype,
                      lsi_range elements, round_fn *apply)
{
    if (params->storage.half == LS_F32) {
        apply(params, dtype, elements);
        return;
    }
    for (size_t i = 0; i < params->params.count; i++) {
        const lsi_param *const p = params->params.items[i];
        const lsi_range all = {p->offset, p->offset + (size_t)p->tensor->count};
        if ((p->trainable || params->sharing.divided) &&
            p->tensor->dtype == LS_F32)
            apply(params, dtype, lsi_range_common(elements, all));
    }
}

static void correct(const ls_params *params, ls_dtype dtype, lsi_range elements)
{
    const lsi_halves *const halves = &params->sharing.halves;
    if (elements.begin >= elements.end)
        return;
    lock(halves->header);
    lsi_array_correct_halves(halves->first + elements.begin, dtype,
                             params->storage.flat + elements.begin,
                             lsi_range_size(elements));
    unlock(halves->header);
}

void lsi_param_update_half(lsi_param *param)
{
    const lsi_params_sharing *const s = &param->set->sharing;
    const lsi_range all = {param->offset,
                           param->offset + (size_t)param->tensor->count};
    const ls_dtype dtype = param->half->dtype;
    assert(param->half_shared);
    for (size_t i = 0; s->divided && i < s->n_here; i++)
        correct(param->set, dtype, lsi_range_common(s->here[i], all));
    if (!s->divided)
        correct(param->set, dtype, all);
}

void *lsi_params_halves_here(ls_params *params, ls_dtype dtype,
                             lsi_range elements)
{
    lsi_halves *const halves = &params->sharing.halves;
    if (!lsi_is_half(dtype) || halves->home == NULL || !is_ours(halves, dtype))
        return NULL;
    if (halves->rounded != params->version ||
        elements.begin >= params->sharing.frozen_begin)
        round_f32(params, dtype, elements, correct);
    return halves->first + elements.begin;
}

/* ---- steps --------------------------------------------------------------- */

/* The type of the halves; LS_F32: none. */
static ls_dtype type_of(const lsi_halves *halves)
{
    header *const h = halves->header;
    const int type = h != NULL ? atomic_load(&h->type) : 0;
    return type > 0 ? (ls_dtype)(type - 1) : LS_F32;
}

ls_dtype lsi_params_half_type(const ls_params *params)
{
    return type_of(&params->sharing.halves);
}

static void convert(const ls_params *params, ls_dtype dtype, lsi_range elements)
{
    lsi_array_convert(params->sharing.halves.first + elements.begin, dtype,
                      params->storage.flat + elements.begin, LS_F32,
                      lsi_range_size(elements));
}

void lsi_params_round(ls_params *params, lsi_range range)
{
    const ls_dtype dtype = type_of(&params->sharing.halves);
    if (dtype != LS_F32)
        round_f32(params, dtype, range, convert);
}

void lsi_params_rounded(ls_params *params)
{
    if (type_of(&params->sharing.halves) != LS_F32)
        params->sharing.halves.rounded = params->version;
    for (size_t i = 0; i < params->params.count; i++) {
        lsi_param *const param = params->params.items[i];
        if (param->half_shared && param->trainable)
            param->half_version = params->version;
    }
}

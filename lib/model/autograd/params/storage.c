#include "model/autograd/params/storage.h"

#include <pthread.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "comm/core/agree.h"
#include "model/autograd/params.h"
#include "model/autograd/params/adopt.h"
#include "model/tensor/tensor.h"

/* The padded size in floats; each element of `flat` has one. */
static size_t padded(const lsi_param *param)
{
    const ls_dtype dtype = param->trainable ? LS_F32 : param->tensor->dtype;
    const size_t bytes = (size_t)param->tensor->count * ls_dtype_size(dtype);
    const size_t count = (bytes + sizeof(float) - 1) / sizeof(float);
    return (count + LSI_PARAM_ALIGN - 1) / LSI_PARAM_ALIGN * LSI_PARAM_ALIGN;
}

static size_t place_trained(ls_params *params)
{
    size_t total = 0;
    for (size_t i = params->params.count; i-- > 0;) {
        lsi_param *param = params->params.items[i];
        if (!param->trainable)
            continue;
        param->offset = total;
        total += padded(param);
    }
    return total;
}

static size_t place_frozen(ls_params *params)
{
    size_t total = 0;
    for (size_t i = 0; i < params->params.count; i++) {
        lsi_param *const param = params->params.items[i];
        if (!lsi_param_is_in_frozen(param))
            continue;
        param->offset = total;
        total += padded(param);
    }
    return total;
}

/* Whether a parameter is in `rest`. */
static bool is_in_rest(const lsi_param *param)
{
    return !param->trainable && !lsi_param_is_in_frozen(param) &&
           !lsi_param_fits_in_place(param);
}

static size_t rest_size(const ls_params *params)
{
    size_t total = 0;
    for (size_t i = 0; i < params->params.count; i++) {
        if (is_in_rest(params->params.items[i]))
            total += padded(params->params.items[i]);
    }
    for (size_t i = 0; i < params->buffers.count; i++)
        total += padded(params->buffers.items[i]);
    return total;
}

static ls_status alloc_gradients(ls_params *params, ls_group *group)
{
    if (group != NULL) {
        LS_TRY(lsi_params_share_grads(params, group));
        lsi_params_set_dropping(params, params->storage.inference);
        return LS_OK;
    }
    return lsi_alloc_zeroed(&params->storage.flat_grad,
                            (params->storage.count + LSI_GRAD_EXTRA) *
                                sizeof(float),
                            LS_MEMORY_GRADIENTS, "the gradients");
}

static ls_status alloc_slices(ls_params *params)
{
    const size_t more = (size_t)params->storage.slices - 1;
    return more == 0
               ? LS_OK
               : lsi_alloc_zeroed(&params->storage.slice_grads,
                                  more * params->storage.count * sizeof(float),
                                  LS_MEMORY_GRADIENTS,
                                  "the gradients of batch slices");
}

/* Weights that the set does not have yet have no address. */
static void *place_of(const lsi_param *param, float *flat)
{
    if (lsi_param_fits_in_place(param))
        return param->adopted.data;
    return flat != NULL ? flat + param->offset : NULL;
}

/* Points the tensors to their memory. */
static ls_status attach_trained(ls_params *params)
{
    for (size_t i = 0; i < params->params.count; i++) {
        lsi_param *param = params->params.items[i];
        const ls_tensor *tensor = param->tensor;
        if (!param->trainable)
            continue;
        LS_TRY(lsi_tensor_set_memory(param->tensor, place_of(param, NULL)));
        param->tensor->storage->supply = &param->supply;
        LS_TRY(lsi_tensor_make_empty(&param->grad, LS_F32, tensor->ndim,
                                     tensor->shape));
        LS_TRY(lsi_tensor_set_memory(param->grad, params->storage.flat_grad +
                                                      param->offset));
    }
    return LS_OK;
}

static ls_status attach_rest(ls_params *params)
{
    float *next = params->storage.rest;
    for (size_t i = 0; i < params->params.count; i++) {
        lsi_param *param = params->params.items[i];
        if (param->trainable)
            continue;
        const bool in_rest = is_in_rest(param);
        LS_TRY(lsi_tensor_set_memory(param->tensor,
                                     in_rest ? next : place_of(param, NULL)));
        param->tensor->storage->supply = &param->supply;
        next += in_rest ? padded(param) : 0;
    }
    for (size_t i = 0; i < params->buffers.count; i++) {
        lsi_param *buffer = params->buffers.items[i];
        LS_TRY(lsi_tensor_set_memory(buffer->tensor, next));
        buffer->tensor->storage->supply = &buffer->supply;
        next += padded(buffer);
    }
    return LS_OK;
}

/* After a failure nothing is attached, so that allocate can be tried again. */
static void detach(const lsi_param_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        lsi_param *param = list->items[i];
        ls_tensor_free(&param->grad);
        lsi_storage_release(param->tensor->storage);
        param->tensor->storage = NULL;
    }
}

/* Elements of the flat buffer of weights: none if the program has them all. */
static size_t flat_size(const ls_params *params)
{
    const lsi_params_storage *const s = &params->storage;
    for (size_t i = 0; s->scattered && i < s->n_places; i++) {
        if (!lsi_param_fits_in_place(s->places[i]))
            return s->count;
    }
    return s->scattered ? 0 : s->count;
}

/* Allocates the memory that ranks do not share, except that of the weights. */
static ls_status alloc_own(ls_params *params)
{
    lsi_params_storage *const s = &params->storage;
    LS_TRY(lsi_params_find_places(params));
    LS_TRY(lsi_alloc_zeroed(&s->rest, rest_size(params) * sizeof(float),
                            LS_MEMORY_PARAMETERS, "buffers"));
    return alloc_slices(params);
}

static ls_status attach_all(ls_params *params)
{
    LS_TRY(attach_trained(params));
    return attach_rest(params);
}

/* Either all ranks have their memory or none has. */
ls_status lsi_params_layout(ls_params *params, ls_group *group)
{
    ls_status status = LS_OK;
    params->storage.count = place_trained(params);
    params->storage.frozen_count = place_frozen(params);
    params->storage.whole = (lsi_range){0, params->storage.count};
    LS_TRY_GOTO(status, lsi_agree_to_plan(group, alloc_own(params)), release);
    LS_TRY_GOTO(status, alloc_gradients(params, group), release);
    LS_TRY_GOTO(status, lsi_agree_to_plan(group, attach_all(params)), undo);
    return LS_OK;

undo:
    lsi_params_undo_layout(params);
    return status;
release:
    lsi_params_release_memory(params);
    return status;
}

void lsi_params_undo_layout(ls_params *params)
{
    detach(&params->params);
    detach(&params->buffers);
    lsi_params_release_memory(params);
}

void lsi_params_release_memory(ls_params *params)
{
    lsi_params_storage *const s = &params->storage;
    lsi_params_set_dropping(params, false);
    lsi_params_disown(params);
    if (params->sharing.group != NULL)
        lsi_params_leave_grads(params);
    else
        lsi_free(s->flat_grad);
    if (params->sharing.home != NULL)
        lsi_params_leave_home(params);
    else
        lsi_free(s->flat);
    lsi_free(s->frozen);
    lsi_free(s->rest);
    lsi_free(s->slice_grads);
    lsi_free(s->places);
    atomic_store(&s->unfilled, false);
    s->flat_grad = s->flat = s->frozen = s->rest = s->slice_grads = NULL;
    s->places = NULL;
    s->scattered = false;
}

void lsi_params_set_dtype(ls_params *params, size_t index, ls_dtype dtype)
{
    const lsi_param *const param = params->params.items[index];
    lsi_params_storage *const s = &params->storage;
    if (param->tensor->storage != NULL || dtype == LS_F32)
        return;
    if (param->trainable && s->inference && s->half == LS_F32)
        s->half = dtype;
    if (!param->trainable || s->half == dtype)
        param->tensor->dtype = dtype;
}

/* ---- initial values ------------------------------------------------------ */

/* Several threads may be the first to read a set. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void fill_whole(const lsi_param *param)
{
    const lsi_range all = {0, (size_t)param->tensor->count};
    if (param->is_adopted)
        lsi_param_read_adopted(param);
    else
        lsi_param_fill(param, all, lsi_tensor_raw(param->tensor));
}

/* Those that are divided are filled where they are divided. */
static void fill_params(const ls_params *params, bool trainable)
{
    for (size_t i = 0; i < params->params.count; i++) {
        const lsi_param *const param = params->params.items[i];
        if (param->trainable == trainable &&
            (params->storage.frozen != NULL || !lsi_param_is_in_frozen(param)))
            fill_whole(param);
    }
}

void lsi_params_fill_rest(ls_params *params)
{
    fill_params(params, false);
    for (size_t i = 0; i < params->buffers.count; i++)
        fill_whole(params->buffers.items[i]);
    atomic_store(&params->storage.unfilled, false);
}

static ls_status alloc_flat(ls_params *params)
{
    LS_TRY(lsi_alloc_zeroed(&params->storage.flat,
                            flat_size(params) * sizeof(float),
                            LS_MEMORY_PARAMETERS, "the parameters"));
    for (size_t i = 0; i < params->params.count; i++) {
        lsi_param *const param = params->params.items[i];
        if (param->trainable)
            param->tensor->storage->data =
                place_of(param, params->storage.flat);
    }
    return LS_OK;
}

ls_status lsi_params_alloc_frozen(ls_params *params)
{
    lsi_params_storage *const s = &params->storage;
    if (s->frozen != NULL || s->frozen_count == 0)
        return LS_OK;
    LS_TRY(lsi_alloc_zeroed(&s->frozen, s->frozen_count * sizeof(float),
                            LS_MEMORY_PARAMETERS, "frozen parameters"));
    for (size_t i = 0; i < params->params.count; i++) {
        lsi_param *const param = params->params.items[i];
        if (lsi_param_is_in_frozen(param))
            param->tensor->storage->data = place_of(param, s->frozen);
    }
    return LS_OK;
}

static ls_status fill_all(ls_params *params)
{
    LS_TRY(alloc_flat(params));
    LS_TRY(lsi_params_alloc_frozen(params));
    fill_params(params, true);
    lsi_params_fill_rest(params);
    return LS_OK;
}

ls_status lsi_params_fill(ls_params *params)
{
    ls_status status = LS_OK;
    if (!atomic_load_explicit(&params->storage.unfilled, memory_order_acquire))
        return LS_OK;
    pthread_mutex_lock(&lock);
    if (atomic_load(&params->storage.unfilled))
        status = fill_all(params);
    pthread_mutex_unlock(&lock);
    return status;
}

/* ---- ranges -------------------------------------------------------------- */

lsi_range lsi_params_range(const ls_params *params, size_t index)
{
    const lsi_param *param = params->params.items[index];
    return (lsi_range){param->offset, param->offset + padded(param)};
}

/* Returns the size of the flat buffers in floats, if requested. */
static void return_count(const ls_params *params, size_t *count)
{
    if (count != NULL)
        *count = params != NULL ? params->storage.count : 0;
}

float *ls_params_flat(ls_params *params, size_t *count)
{
    return_count(params, count);
    if (params == NULL || params->storage.scattered || params->sharing.divided)
        return NULL;
    return lsi_params_fill(params) == LS_OK ? params->storage.flat : NULL;
}

float *ls_params_flat_grad(ls_params *params, size_t *count)
{
    return_count(params, count);
    return params != NULL ? params->storage.flat_grad : NULL;
}

float *lsi_params_grad_extra(const ls_params *params)
{
    return params->storage.flat_grad + params->storage.count;
}

size_t ls_params_offset(const ls_params *params, size_t index)
{
    return ls_params_is_trainable(params, index)
               ? params->params.items[index]->offset
               : SIZE_MAX;
}

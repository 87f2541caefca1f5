/* Parameter sets: life, definition, lookup, existing gradients. */
#include "model/autograd/params.h"
#include "model/autograd/params/adopt.h"

#include <assert.h>
#include <string.h>

#include "array/compute/compute.h"
#include "base/error.h"
#include "base/memory.h"
#include "comm/core/agree.h"
#include "model/tensor/tensor.h"

/* ---- life ---------------------------------------------------------------- */

ls_status ls_params_new(ls_params **out)
{
    LS_NEED(out);
    LS_TRY(lsi_compute_check());
    ls_params *params;
    LS_TRY(lsi_alloc_zeroed(&params, sizeof(ls_params), LS_MEMORY_OTHER,
                            "a parameter set"));
    params->storage.slices = 1;
    params->version = 1;
    *out = params;
    return LS_OK;
}

static void free_param(lsi_param *param)
{
    if (param->tensor != NULL)
        param->tensor->param = NULL; /* the caller may hold a reference */
    ls_tensor_free(&param->tensor);
    ls_tensor_free(&param->grad);
    ls_tensor_free(&param->half);
    lsi_free(param->name);
    lsi_free(param);
}

static void free_list(lsi_param_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free_param(list->items[i]);
    lsi_free(list->items);
}

void ls_params_free(ls_params **params)
{
    if (params == NULL || *params == NULL)
        return;
    ls_params *freed = *params;
    *params = NULL;
    lsi_params_release_memory(freed); /* of parameters that are still there */
    free_list(&freed->params);
    free_list(&freed->buffers);
    lsi_free(freed);
}

/* ---- definition ---------------------------------------------------------- */

static bool has_name(const lsi_param_list *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->items[i]->name, name) == 0)
            return true;
    }
    return false;
}

static ls_status check_new_name(const ls_params *params, const char *name)
{
    if (name == NULL || name[0] == '\0')
        return lsi_fail(LS_ERR_ARGUMENT, "the name of a parameter is empty");
    if (has_name(&params->params, name) || has_name(&params->buffers, name))
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "the parameter set already has a parameter or buffer named '%s'",
            name);
    if (params->storage.allocated)
        return lsi_fail(LS_ERR_STATE,
                        "cannot add '%s': the parameter set is already "
                        "allocated; add it before ls_params_allocate",
                        name);
    return LS_OK;
}

/* Makes room for one more. */
static ls_status reserve(lsi_param_list *list)
{
    if (list->count < list->capacity)
        return LS_OK;
    const size_t capacity = list->capacity > 0 ? 2 * list->capacity : 16;
    LS_TRY(lsi_alloc_larger(&list->items, list->count * sizeof(lsi_param *),
                            capacity * sizeof(lsi_param *), LS_MEMORY_OTHER,
                            "a parameter set"));
    list->capacity = capacity;
    return LS_OK;
}

static ls_status new_param(lsi_param **out, const char *name, int ndim,
                           const int64_t *shape)
{
    lsi_param *param;
    const size_t bytes = strlen(name) + 1;
    LS_TRY(lsi_alloc_zeroed(&param, sizeof(lsi_param), LS_MEMORY_OTHER,
                            "a parameter"));
    ls_status status =
        lsi_alloc(&param->name, bytes, LS_MEMORY_OTHER, "a parameter's name");
    if (status == LS_OK)
        status = lsi_tensor_make_empty(&param->tensor, LS_F32, ndim, shape);
    if (status != LS_OK) {
        free_param(param);
        return status;
    }
    memcpy(param->name, name, bytes);
    *out = param;
    return LS_OK;
}

void lsi_params_remove_last(ls_params *params)
{
    assert(!params->storage.allocated);
    free_param(params->params.items[--params->params.count]);
}

static ls_status check_init(const char *name, ls_init init)
{
    if ((unsigned)init.kind > LS_INIT_TRUNCATED_NORMAL)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "'%s': unknown kind of initialisation: %d",
                        name != NULL ? name : "", (int)init.kind);
    return LS_OK;
}

/* The set's owner, which gathers divided weights. */
static ls_status find_gatherer(const lsi_param *param,
                               const lsi_params_owner **out)
{
    *out = param->set->sharing.owner;
    return *out != NULL
               ? LS_OK
               : lsi_fail(LS_ERR_STATE,
                          "'%s' is divided over nodes, and its ls_ddp has been "
                          "freed: use it before, or create a new ls_ddp",
                          param->name);
}

ls_status lsi_param_provide(lsi_param *param, lsi_weights_need need)
{
    const lsi_params_owner *owner;
    if (!lsi_param_is_divided(param))
        return lsi_params_fill(param->set);
    LS_TRY(find_gatherer(param, &owner));
    return owner->need(owner->context, param->index, need);
}

ls_status lsi_param_provide_again(lsi_param *param)
{
    const lsi_params_owner *owner;
    if (!lsi_param_is_divided(param))
        return LS_OK;
    LS_TRY(find_gatherer(param, &owner));
    return owner->need_again(owner->context, param->index);
}

ls_status lsi_params_settle(ls_params *params, ls_status status)
{
    const lsi_params_owner *const owner = params->sharing.owner;
    lsi_error error = {.status = LS_OK};
    ls_status settled = LS_OK;
    (void)lsi_error_keep(&error, status);
    ls_params_changed(params);
    params->sharing.frozen_changed = true;
    if (params->sharing.divided && owner != NULL)
        settled = owner->after_step(owner->context);
    return status == LS_OK ? settled : lsi_error_again(&error);
}

/* Somebody is going to look at a parameter's values. */
static ls_status provide(lsi_supply *supply, bool in_pass)
{
    lsi_param *const param = (lsi_param *)(void *)supply;
    return lsi_param_provide(
        param, (lsi_weights_need){.half = lsi_param_is_kept_half(param),
                                  .in_pass = in_pass});
}

static ls_status check_stay(const lsi_supply *supply, const char *function)
{
    const lsi_param *const param = (const lsi_param *)(const void *)supply;
    return !lsi_param_is_divided(param) || param->fetched > 0
               ? LS_OK
               : lsi_fail(LS_ERR_STATE,
                          "%s: '%s' is divided over nodes, so its values do "
                          "not stay on this one; call ls_params_fetch before, "
                          "and ls_params_release after",
                          function, param->name);
}

/* Without an owner nothing can be written. */
static lsi_range kept(const lsi_supply *supply)
{
    const lsi_param *const param = (const lsi_param *)(const void *)supply;
    const ls_params *const set = param->set;
    const size_t count = (size_t)param->tensor->count, at = param->offset;
    size_t n;
    if (!lsi_param_is_divided(param) || set->sharing.owner == NULL)
        return (lsi_range){0, count};
    const lsi_range own =
        param->trainable ? lsi_params_owned(set, &n)[0]
                         : lsi_params_frozen_part(
                               set, ls_group_rank(set->sharing.home_group));
    const lsi_range part = lsi_range_common(own, (lsi_range){at, at + count});
    return (lsi_range){part.begin - at, part.end - at};
}

/* Appends a parameter to the list; the caller sets its init. */
static ls_status add(ls_params *params, lsi_param_list *list, const char *name,
                     int ndim, const int64_t *shape, lsi_param **out)
{
    LS_TRY(check_new_name(params, name));
    LS_TRY(reserve(list));
    lsi_param *param = NULL;
    LS_TRY(new_param(&param, name, ndim, shape));
    param->supply = (lsi_supply){provide, check_stay, kept};
    param->set = params;
    param->index = list->count;
    param->offset = SIZE_MAX;
    list->items[list->count++] = param;
    *out = param;
    return LS_OK;
}

ls_status ls_params_add(ls_params *params, const char *name, int ndim,
                        const int64_t *shape, ls_init init, ls_tensor **out)
{
    LS_NEED(params, name);
    if (ndim > 0)
        LS_NEED(shape);
    lsi_param *param = NULL;
    LS_TRY(check_init(name, init));
    LS_TRY(add(params, &params->params, name, ndim, shape, &param));
    param->init = init;
    param->trainable = true;
    param->tensor->param = param;
    if (out != NULL)
        *out = param->tensor;
    return LS_OK;
}

ls_status ls_params_add_buffer(ls_params *params, const char *name, int ndim,
                               const int64_t *shape, ls_init init,
                               ls_tensor **out)
{
    LS_NEED(params, name);
    if (ndim > 0)
        LS_NEED(shape);
    lsi_param *param = NULL;
    LS_TRY(check_init(name, init));
    LS_TRY(add(params, &params->buffers, name, ndim, shape, &param));
    param->is_buffer = true;
    param->init = init;
    if (out != NULL)
        *out = param->tensor;
    return LS_OK;
}

ls_status ls_params_set_trainable(ls_params *params, ls_tensor *param,
                                  bool trainable)
{
    LS_NEED(params, param);
    if (param == NULL || param->param == NULL || param->param->set != params)
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "ls_params_set_trainable: the tensor is not a parameter "
            "of this set");
    if (params->storage.allocated)
        return lsi_fail(LS_ERR_STATE,
                        "ls_params_set_trainable: the parameter set of '%s' is "
                        "already allocated; call it before ls_params_allocate",
                        param->param->name);
    param->param->trainable = trainable;
    return LS_OK;
}

ls_status lsi_params_freeze(ls_params *params)
{
    for (size_t i = 0; i < ls_params_count(params); i++)
        LS_TRY(
            ls_params_set_trainable(params, ls_params_get(params, i), false));
    return LS_OK;
}

void lsi_params_start_at_zero(ls_params *params)
{
    for (size_t i = 0; i < ls_params_count(params); i++)
        ls_params_get(params, i)->param->init =
            (ls_init){.kind = LS_INIT_CONSTANT};
}

void lsi_params_set_inference(ls_params *params)
{
    assert(!params->storage.allocated);
    params->storage.inference = true;
    lsi_params_start_at_zero(params);
}

ls_status ls_params_allocate(ls_params *params, ls_group *group, uint64_t seed)
{
    LS_NEED(params);
    if (params->storage.allocated)
        return lsi_fail(
            LS_ERR_STATE,
            "ls_params_allocate: the parameter set is already allocated");
    if (group != NULL)
        LS_TRY(lsi_params_same(params, group));
    LS_TRY(lsi_params_layout(params, group));
    params->storage.seed = seed;
    atomic_store(&params->storage.unfilled, true);
    ls_status status = LS_OK;
    if (ls_group_size(group) < 2 || params->storage.adopts)
        status = lsi_params_fill(params); /* nothing to divide */
    if (group != NULL)
        status = lsi_agree_to_plan(group, status);
    if (status != LS_OK) {
        lsi_params_undo_layout(params);
        return status;
    }
    params->storage.allocated = true;
    ls_params_changed(params);
    return LS_OK;
}

/* ---- lookup -------------------------------------------------------------- */

static const lsi_param *param_at(const ls_params *params, size_t index)
{
    return index < ls_params_count(params) ? params->params.items[index] : NULL;
}

static const lsi_param *buffer_at(const ls_params *params, size_t index)
{
    return index < ls_params_buffer_count(params) ? params->buffers.items[index]
                                                  : NULL;
}

size_t ls_params_count(const ls_params *params)
{
    return params != NULL ? params->params.count : 0;
}

ls_tensor *ls_params_get(ls_params *params, size_t index)
{
    const lsi_param *param = param_at(params, index);
    return param != NULL ? param->tensor : NULL;
}

const char *ls_params_name(const ls_params *params, size_t index)
{
    const lsi_param *param = param_at(params, index);
    return param != NULL ? param->name : NULL;
}

bool ls_params_is_trainable(const ls_params *params, size_t index)
{
    const lsi_param *param = param_at(params, index);
    return param != NULL && param->trainable;
}

size_t ls_params_buffer_count(const ls_params *params)
{
    return params != NULL ? params->buffers.count : 0;
}

ls_tensor *ls_params_buffer(ls_params *params, size_t index)
{
    const lsi_param *buffer = buffer_at(params, index);
    return buffer != NULL ? buffer->tensor : NULL;
}

const char *ls_params_buffer_name(const ls_params *params, size_t index)
{
    const lsi_param *buffer = buffer_at(params, index);
    return buffer != NULL ? buffer->name : NULL;
}

int64_t ls_params_numel(const ls_params *params)
{
    if (params == NULL)
        return 0;
    int64_t numel = 0;
    for (size_t i = 0; i < params->params.count; i++)
        numel += params->params.items[i]->tensor->count;
    return numel;
}

void ls_params_changed(ls_params *params)
{
    if (params == NULL)
        return;
    params->version++;
    lsi_params_write_back(params, false);
}

void lsi_params_stepped(ls_params *params)
{
    for (size_t i = 0; i < params->params.count; i++) {
        lsi_param *const param = params->params.items[i];
        if (!param->trainable && param->half_version == params->version)
            param->half_version++; /* a frozen one's copy stays valid */
    }
    params->version++;
}

/* ---- divided weights ----------------------------------------------------- */

ls_status ls_params_fetch(ls_params *params, size_t index)
{
    LS_NEED(params);
    if (index >= params->params.count)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "ls_params_fetch: index is %zu, but the set has %zu "
                        "parameters",
                        index, params->params.count);
    lsi_param *const param = params->params.items[index];
    LS_TRY(lsi_tensor_check_memory(param->tensor, __func__));
    param->fetched++;
    return LS_OK;
}

void ls_params_release(ls_params *params, size_t index)
{
    if (index < ls_params_count(params) &&
        params->params.items[index]->fetched > 0) {
        params->params.items[index]->fetched--;
        lsi_tensor_used(); /* the next need may let it go */
    }
}

/* ---- gradients ----------------------------------------------------------- */

ls_tensor *ls_grad(ls_tensor *param)
{
    return param != NULL && param->param != NULL ? param->param->grad : NULL;
}

void ls_params_zero_grad(ls_params *params)
{
    if (params == NULL)
        return;
    for (size_t i = 0; i < params->params.count; i++)
        params->params.items[i]->written = 0;
    if (params->sharing.owner != NULL)
        params->sharing.owner->forgotten(params->sharing.owner->context);
}

void ls_params_finish_grad(ls_params *params)
{
    if (params == NULL)
        return;
    for (size_t i = 0; i < params->params.count; i++)
        lsi_params_fold(params, i);
}

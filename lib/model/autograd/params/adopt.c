#include "model/autograd/params/adopt.h"

#include <assert.h>
#include <string.h>

#include "array/compute/array.h"
#include "base/error.h"
#include "base/structs.h"
#include "model/autograd/params.h"
#include "model/autograd/tape.h"
#include "model/tensor/tensor.h"

/* ---- defining ------------------------------------------------------------ */

static ls_status check_block(const char *name, const char *what,
                             const void *data, ls_dtype dtype)
{
    if (!lsi_dtype_is_real(dtype))
        return lsi_fail(LS_ERR_DTYPE,
                        "ls_params_adopt: %s of '%s' have dtype %s; it must be "
                        "f32, bf16 or f16",
                        what, name, ls_dtype_name(dtype));
    if ((uintptr_t)data % ls_dtype_size(dtype) != 0)
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "ls_params_adopt: %s of '%s' are at address %p; the address must "
            "be a multiple of %zu, the size of %s in bytes",
            what, name, data, ls_dtype_size(dtype), ls_dtype_name(dtype));
    return LS_OK;
}

static ls_status check_memory(const char *name, const ls_param_memory *memory,
                              int64_t count)
{
    if (memory->data == NULL && count > 0)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "ls_params_adopt: the memory of '%s' is NULL", name);
    LS_TRY(check_block(name, "the weights", memory->data, memory->dtype));
    return memory->grad == NULL ? LS_OK
                                : check_block(name, "the gradients",
                                              memory->grad, memory->grad_dtype);
}

static bool overlap(const void *a, size_t a_bytes, const void *b,
                    size_t b_bytes)
{
    const uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
    return a != NULL && b != NULL && x < y + b_bytes && y < x + a_bytes;
}

static size_t bytes_of(const lsi_param *param, ls_dtype dtype)
{
    return (size_t)param->tensor->count * ls_dtype_size(dtype);
}

/* Whether memory overlaps the weights, or the gradients, of a parameter. */
static bool overlaps_weights(const void *a, size_t bytes, const lsi_param *p)
{
    const ls_param_memory *const m = &p->adopted;
    return overlap(a, bytes, m->data, bytes_of(p, m->dtype));
}

static bool overlaps_gradients(const void *a, size_t bytes, const lsi_param *p)
{
    const ls_param_memory *const m = &p->adopted;
    return overlap(a, bytes, m->grad, bytes_of(p, m->grad_dtype));
}

/*
 * Two parameters in the same memory would be stepped twice, and gradients would
 * overwrite weights that they share memory with.
 */
static ls_status check_overlap(const ls_params *params, const lsi_param *added)
{
    const ls_param_memory *const a = &added->adopted;
    const size_t data = bytes_of(added, a->dtype);
    const size_t grad = bytes_of(added, a->grad_dtype);
    if (overlaps_gradients(a->data, data, added))
        return lsi_fail(LS_ERR_ARGUMENT,
                        "ls_params_adopt: the weights and the gradients of "
                        "'%s' overlap in memory; pass separate memory for each",
                        added->name);
    for (size_t i = 0; i < added->index; i++) {
        const lsi_param *const other = params->params.items[i];
        if (other->is_adopted && (overlaps_weights(a->data, data, other) ||
                                  overlaps_gradients(a->data, data, other) ||
                                  overlaps_weights(a->grad, grad, other) ||
                                  overlaps_gradients(a->grad, grad, other)))
            return lsi_fail(LS_ERR_ARGUMENT,
                            "ls_params_adopt: '%s' and '%s' overlap in memory; "
                            "adopt a shared parameter only once",
                            added->name, other->name);
    }
    return LS_OK;
}

ls_status ls_params_adopt(ls_params *params, const char *name, int ndim,
                          const int64_t *shape, const ls_param_memory *memory,
                          ls_tensor **out)
{
    LS_NEED(params, name, memory);
    if (ndim > 0)
        LS_NEED(shape);
    ls_param_memory own;
    int64_t count;
    LS_TRY(LSI_STRUCT_READ(&own, memory, ls_param_memory, grad_dtype));
    LS_TRY(lsi_shape_check(LS_F32, ndim, shape, &count));
    LS_TRY(check_memory(name, &own, count));
    LS_TRY(ls_params_add(params, name, ndim, shape,
                         (ls_init){.kind = LS_INIT_CONSTANT}, NULL));
    lsi_param *const param = params->params.items[params->params.count - 1];
    param->adopted = own;
    param->is_adopted = true;
    const ls_status status = check_overlap(params, param);
    if (status != LS_OK) {
        lsi_params_remove_last(params);
        return status;
    }
    params->storage.adopts = true;
    if (out != NULL)
        *out = param->tensor;
    return LS_OK;
}

/* ---- laying out ---------------------------------------------------------- */

bool lsi_param_fits_in_place(const lsi_param *param)
{
    return param->is_adopted && param->adopted.dtype == LS_F32;
}

ls_status lsi_params_find_places(ls_params *params)
{
    lsi_params_storage *const s = &params->storage;
    const size_t n = params->params.count;
    s->scattered = false;
    for (size_t i = 0; i < n; i++)
        s->scattered |= params->params.items[i]->trainable &&
                        lsi_param_fits_in_place(params->params.items[i]);
    if (!s->scattered)
        return LS_OK;
    LS_TRY(lsi_alloc(&s->places, n * sizeof(lsi_param *), LS_MEMORY_OTHER,
                     "a parameter set"));
    s->n_places = 0;
    for (size_t i = n; i-- > 0;) {
        if (params->params.items[i]->trainable)
            s->places[s->n_places++] = params->params.items[i];
    }
    return LS_OK;
}

void lsi_param_read_adopted(const lsi_param *param)
{
    if (!lsi_param_fits_in_place(param))
        lsi_array_convert(lsi_tensor_raw(param->tensor), LS_F32,
                          param->adopted.data, param->adopted.dtype,
                          (size_t)param->tensor->count);
}

/* ---- walking ------------------------------------------------------------- */

/* The last parameter that begins at `at` or before. */
static const lsi_param *find_place(const lsi_params_storage *s, size_t at)
{
    size_t low = 0, high = s->n_places;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (s->places[middle]->offset <= at)
            low = middle;
        else
            high = middle;
    }
    /* Empty parameters begin where the next one does; this is the last. */
    return s->places[low];
}

float *lsi_params_weights(const ls_params *params, size_t at, size_t *n)
{
    const lsi_params_storage *const s = &params->storage;
    if (!s->scattered)
        return s->flat + at;
    const lsi_param *const param = find_place(s, at);
    assert(param->offset <= at);
    const size_t count = (size_t)param->tensor->count;
    const size_t from = at - param->offset;
    const bool padding = from >= count;
    const size_t end =
        padding ? lsi_params_range(params, param->index).end - param->offset
                : count;
    if (*n > end - from)
        *n = end - from;
    return padding ? NULL : (float *)lsi_tensor_raw(param->tensor) + from;
}

void lsi_params_copy_weights(const ls_params *params, float *out)
{
    const lsi_params_storage *const s = &params->storage;
    if (!s->scattered) {
        memcpy(out, s->flat, s->count * sizeof(float));
        return;
    }
    for (size_t i = 0; i < s->n_places; i++) {
        const ls_tensor *const tensor = s->places[i]->tensor;
        if (tensor->count > 0)
            memcpy(out + s->places[i]->offset, lsi_tensor_raw(tensor),
                   (size_t)tensor->count * sizeof(float));
    }
}

/* ---- the program's view -------------------------------------------------- */

void lsi_params_write_back(const ls_params *params, bool trained_only)
{
    if (!params->storage.adopts)
        return;
    for (size_t i = 0; i < params->params.count; i++) {
        const lsi_param *const param = params->params.items[i];
        if (!param->is_adopted || (trained_only && !param->trainable) ||
            param->tensor->storage == NULL)
            continue;
        const void *const values = lsi_tensor_raw(param->tensor);
        if (values != param->adopted.data)
            lsi_array_convert(param->adopted.data, param->adopted.dtype, values,
                              LS_F32, (size_t)param->tensor->count);
    }
}

void lsi_params_accept_grad(ls_params *params, size_t index)
{
    lsi_param *const param = params->params.items[index];
    assert(param->trainable);
    if (param->adopted.grad != NULL)
        lsi_array_convert(lsi_tensor_raw(param->grad), LS_F32,
                          param->adopted.grad, param->adopted.grad_dtype,
                          (size_t)param->tensor->count);
    param->written = 1;
}

void lsi_params_write_back_grads(const ls_params *params)
{
    for (size_t i = 0; params->storage.adopts && i < params->params.count;
         i++) {
        const lsi_param *const param = params->params.items[i];
        if (param->trainable && param->adopted.grad != NULL)
            lsi_array_convert(param->adopted.grad, param->adopted.grad_dtype,
                              lsi_tensor_raw(param->grad), LS_F32,
                              (size_t)param->tensor->count);
    }
}

/* The tape's life, its errors, and what it owns. */
#include "model/autograd/tape.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "array/compute/compute.h"
#include "base/error.h"
#include "base/memory.h"
#include "model/autograd/params.h"
#include "observe/spans.h"

/* ---- life ---------------------------------------------------------------- */

ls_status ls_tape_new(ls_tape **out)
{
    LS_NEED(out);
    LS_TRY(lsi_compute_check());
    ls_tape *tape;
    LS_TRY(lsi_alloc_zeroed(&tape, sizeof(ls_tape), LS_MEMORY_OTHER, "a tape"));
    const ls_status status = lsi_pool_new(&tape->pool);
    if (status != LS_OK) {
        lsi_free(tape);
        return status;
    }
    tape->training = true;
    *out = tape;
    return LS_OK;
}

void ls_tape_free(ls_tape **tape)
{
    if (tape == NULL || *tape == NULL)
        return;
    ls_tape *freed = *tape;
    *tape = NULL;
    ls_tape_reset(freed);
    ls_tape_free(&freed->inner);
    lsi_arena_free(&freed->arena);
    lsi_free(freed->nodes);
    lsi_free(freed->slots);
    lsi_free(freed->owned.items);
    lsi_free(freed->temps.items);
    if (freed->outer == NULL) /* else the outer tape owns the pool */
        lsi_pool_close(&freed->pool);
    lsi_free(freed);
}

static void clear(lsi_tensor_list *list)
{
    while (list->count > 0)
        ls_tensor_free(&list->items[--list->count]);
}

static void free_slots(ls_tape *tape)
{
    for (int i = 0; i < tape->n_slots; i++) {
        lsi_slot *slot = &tape->slots[i];
        assert(slot->tensor->tape == tape && slot->tensor->slot == i);
        slot->tensor->tape = NULL;
        ls_tensor_free(&slot->grad);
        ls_tensor_free(&slot->tensor);
    }
    tape->n_slots = 0;
}

void lsi_tape_forget_rounded(ls_tape *tape)
{
    assert((tape->rounded == NULL) == (tape->rounded_from == NULL));
    ls_tensor_free(&tape->rounded_from);
    ls_tensor_free(&tape->rounded);
}

static _Thread_local uint64_t passes;

uint64_t lsi_tape_passes(void)
{
    return passes;
}

void lsi_tape_begin_pass(void)
{
    passes++;
}

void ls_tape_reset(ls_tape *tape)
{
    if (tape == NULL)
        return;
    passes += tape->outer == NULL;
    for (int i = 0; i < tape->n_nodes; i++)
        lsi_tape_release_node(&tape->nodes[i]);
    tape->n_nodes = 0;
    free_slots(tape);
    lsi_tape_forget_rounded(tape);
    tape->loss = NULL;
    clear(&tape->temps);
    clear(&tape->owned);
    lsi_arena_reset(&tape->arena);
    tape->phase = LSI_TAPE_RECORDING;
    tape->op_began = 0;
    tape->random_ops = 0;
    tape->random_step += tape->random_was_used;
    tape->random_was_used = false;
    tape->status = LS_OK;
    lsi_tensor_forgive(tape);
}

/* ---- settings ------------------------------------------------------------ */

void ls_tape_set_training(ls_tape *tape, bool training)
{
    if (tape != NULL)
        tape->training = training;
}

bool ls_tape_is_training(const ls_tape *tape)
{
    return tape != NULL && tape->training;
}

void ls_tape_set_random(ls_tape *tape, uint64_t seed, uint64_t stream,
                        uint64_t step)
{
    if (tape == NULL)
        return;
    tape->random_key = (lsi_rng_key){.seed = seed, .stream = stream};
    tape->random_step = step;
    tape->random_was_used = false;
}

/* ---- errors -------------------------------------------------------------- */

bool lsi_tape_given(const ls_tape *tape, const char *function)
{
    if (tape == NULL)
        lsi_fail(LS_ERR_ARGUMENT, "%s: tape is NULL", function);
    return tape != NULL;
}

ls_status lsi_tape_check_recording(const ls_tape *tape, const char *function)
{
    if (tape->phase == LSI_TAPE_RECORDING)
        return LS_OK;
    return lsi_fail(LS_ERR_STATE,
                    "%s: backward already ran on this tape; call ls_tape_reset "
                    "first",
                    function);
}

ls_status ls_tape_status(const ls_tape *tape)
{
    LS_NEED(tape);
    if (tape->status == LS_OK)
        return LS_OK;
    return lsi_fail(tape->status, "%s", tape->message);
}

ls_tensor *lsi_tape_stop(ls_tape *tape, ls_status status)
{
    if (tape->status == LS_OK) {
        tape->status = status;
        snprintf(tape->message, sizeof tape->message, "%s", ls_last_error());
        lsi_tensor_blame(tape, status, tape->message);
    } else {
        ls_ignore(
            ls_tape_status(tape)); /* the first error is the one to show */
    }
    if (tape->phase == LSI_TAPE_RECORDING)
        lsi_tape_free_temps(tape);
    return NULL;
}

ls_tensor *ls_tape_fail(ls_tape *tape, ls_status status, const char *format,
                        ...)
{
    va_list args;
    if (format == NULL) {
        lsi_fail(status, "ls_tape_fail: format is NULL");
    } else {
        va_start(args, format);
        lsi_vfail(status, format, args);
        va_end(args);
    }
    return tape != NULL ? lsi_tape_stop(tape, status) : NULL;
}

bool lsi_tape_has(ls_tape *tape, const void *argument, const char *function,
                  const char *name)
{
    if (!lsi_tape_given(tape, function))
        return false;
    if (argument == NULL)
        ls_tape_fail(tape, LS_ERR_ARGUMENT, "%s: %s is NULL", function, name);
    return argument != NULL;
}

/* ---- ownership ----------------------------------------------------------- */

ls_status lsi_tape_grow(void *array, int *capacity, int needed, size_t size)
{
    if (needed <= *capacity)
        return LS_OK;
    int larger = *capacity > 0 ? *capacity : 32;
    while (larger < needed)
        larger *= 2;
    LS_TRY(lsi_alloc_larger(array, (size_t)*capacity * size,
                            (size_t)larger * size, LS_MEMORY_OTHER,
                            "a tape's lists"));
    *capacity = larger;
    return LS_OK;
}

/* Takes over the reference, even on failure. */
static ls_status append(lsi_tensor_list *list, ls_tensor *tensor)
{
    const ls_status status = lsi_tape_grow(&list->items, &list->capacity,
                                           list->count + 1, sizeof tensor);
    if (status != LS_OK) {
        ls_tensor_free(&tensor);
        return status;
    }
    list->items[list->count++] = tensor;
    return LS_OK;
}

ls_status lsi_tape_make(const ls_tape *tape, ls_dtype dtype, int ndim,
                        const int64_t *shape, lsi_layout layout,
                        ls_tensor **out)
{
    return lsi_tensor_make(out,
                           &(lsi_tensor_spec){.dtype = dtype,
                                              .ndim = ndim,
                                              .shape = shape,
                                              .layout = layout,
                                              .pool = tape->pool,
                                              .tag = LS_MEMORY_ACTIVATIONS});
}

ls_status lsi_tape_own(ls_tape *tape, ls_tensor *tensor)
{
    return append(&tape->owned, tensor);
}

void lsi_tape_drop_values(ls_tensor *tensor)
{
    if (tensor == NULL)
        return;
    lsi_storage_release(tensor->storage);
    tensor->storage = NULL;
}

int lsi_tape_mark(const ls_tape *tape)
{
    return tape->owned.count;
}

void lsi_tape_keep_only(ls_tape *tape, int mark, const ls_tensor *result)
{
    ls_tensor *kept = NULL;
    assert(mark >= 0 && mark <= tape->owned.count);
    if (result == NULL || lsi_tape_slot(tape, result) != NULL)
        return;
    while (tape->owned.count > mark) {
        ls_tensor *last = tape->owned.items[--tape->owned.count];
        if (last == result)
            kept = last;
        else
            ls_tensor_free(&last);
    }
    if (kept != NULL) /* where there was room for it */
        tape->owned.items[tape->owned.count++] = kept;
}

ls_status lsi_tape_own_temp(ls_tape *tape, ls_tensor *tensor)
{
    return append(&tape->temps, tensor);
}

ls_status lsi_tape_temp(ls_tape *tape, ls_dtype dtype, int ndim,
                        const int64_t *shape, lsi_layout layout,
                        ls_tensor **out)
{
    ls_tensor *tensor = NULL;
    LS_TRY(lsi_tape_make(tape, dtype, ndim, shape, layout, &tensor));
    LS_TRY(lsi_tape_own_temp(tape, tensor));
    *out = tensor;
    return LS_OK;
}

void lsi_tape_free_temps(ls_tape *tape)
{
    if (!tape->holds_temps)
        clear(&tape->temps);
}

void lsi_tape_hold_temps(ls_tape *tape, bool hold)
{
    assert(tape->holds_temps != hold);
    tape->holds_temps = hold;
    lsi_tape_free_temps(tape);
}

ls_tensor *ls_tape_output(ls_tape *tape, ls_dtype dtype, int ndim,
                          const int64_t *shape)
{
    if (!lsi_tape_given(tape, __func__) || tape->status != LS_OK)
        return NULL;
    if (ndim > 0 && !lsi_tape_has(tape, shape, __func__, "shape"))
        return NULL;
    ls_status status = lsi_tape_check_recording(tape, __func__);
    if (status != LS_OK)
        return lsi_tape_stop(tape, status);
    if (tape->op_began == 0)
        tape->op_began = lsi_span_begin();
    ls_tensor *tensor = NULL;
    status = lsi_tape_make(tape, dtype, ndim, shape, LSI_LAYOUT_PLAIN, &tensor);
    if (status == LS_OK)
        status = lsi_tape_own(tape, tensor);
    return status == LS_OK ? tensor : lsi_tape_stop(tape, status);
}

void *ls_tape_scratch(ls_tape *tape, size_t bytes)
{
    if (!lsi_tape_given(tape, __func__))
        return NULL;
    ls_tensor *tensor = NULL;
    const int64_t n = (int64_t)bytes;
    const ls_status status =
        lsi_tape_temp(tape, LS_U8, 1, &n, LSI_LAYOUT_PLAIN, &tensor);
    if (status == LS_OK)
        return lsi_tensor_raw(tensor);
    lsi_tape_stop(tape, status);
    return NULL;
}

/* ---- watching ------------------------------------------------------------ */

bool lsi_tape_needs(const ls_tape *tape, const ls_tensor *tensor)
{
    if (tensor == NULL)
        return false;
    if (tensor->param != NULL)
        return tensor->param->grad != NULL;
    return tensor->tape == tape;
}

ls_status lsi_tape_add_slot(ls_tape *tape, ls_tensor *tensor, int node)
{
    assert(tensor->tape == NULL && tensor->param == NULL);
    assert(node >= -1 && node < tape->n_nodes);
    LS_TRY(lsi_tape_grow(&tape->slots, &tape->slots_capacity, tape->n_slots + 1,
                         sizeof(lsi_slot)));
    tensor->tape = tape;
    tensor->slot = tape->n_slots;
    tape->slots[tape->n_slots++] =
        (lsi_slot){.tensor = ls_tensor_retain(tensor), .node = node};
    return LS_OK;
}

ls_status ls_tape_watch(ls_tape *tape, ls_tensor *tensor)
{
    LS_NEED(tape);
    LS_TRY(ls_tape_status(tape));
    LS_NEED(tensor);
    if (tensor->param != NULL)
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "ls_tape_watch: '%s' is a parameter; get its gradient with ls_grad",
            tensor->param->name);
    if (!lsi_dtype_is_real(tensor->dtype))
        return lsi_fail(LS_ERR_DTYPE,
                        "ls_tape_watch: a tensor of dtype %s cannot have a "
                        "gradient; the dtype must be f32, bf16 or f16",
                        ls_dtype_name(tensor->dtype));
    LS_TRY(lsi_tape_check_recording(tape, __func__));
    if (tensor->tape != NULL && tensor->tape != tape)
        return lsi_fail(LS_ERR_STATE,
                        "ls_tape_watch: another tape uses the tensor of shape "
                        "%s; reset that tape first",
                        lsi_shape_of(tensor).text);
    if (tensor->tape == NULL)
        LS_TRY(lsi_tape_add_slot(tape, tensor, -1));
    tape->slots[tensor->slot].watched = true;
    return LS_OK;
}

ls_tensor *ls_tape_grad(ls_tape *tape, const ls_tensor *tensor)
{
    if (tape == NULL || tensor == NULL || tape->phase != LSI_TAPE_WALKED)
        return NULL;
    const lsi_slot *slot = lsi_tape_slot(tape, tensor);
    return slot != NULL && slot->watched ? slot->grad : NULL;
}

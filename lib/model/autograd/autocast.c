/* Mixed precision: operands, and the half copies of parameters. */
#include "model/autograd/autocast.h"

#include "array/compute/array.h"
#include <assert.h>

#include "base/bits.h"
#include "base/error.h"
#include "base/half.h"
#include "model/autograd/ops/ops.h"
#include "model/autograd/params.h"
#include "model/autograd/params/halves.h"

ls_status ls_tape_set_autocast(ls_tape *tape, ls_dtype dtype)
{
    LS_NEED(tape);
    if (dtype != LS_F32 && !lsi_is_half(dtype))
        return lsi_fail(LS_ERR_DTYPE,
                        "ls_tape_set_autocast: dtype is %s; it must be bf16 or "
                        "f16, or f32 to switch autocast off",
                        ls_dtype_name(dtype));
    if (dtype != LS_F32 && lsi_bits_are_portable())
        return lsi_fail(LS_ERR_UNSUPPORTED,
                        "ls_tape_set_autocast: dtype is %s, but the process "
                        "asks for portable bits, which only f32 has",
                        ls_dtype_name(dtype));
    lsi_tape_forget_rounded(tape);
    tape->autocast = dtype;
    return LS_OK;
}

ls_dtype ls_tape_autocast(const ls_tape *tape)
{
    return tape != NULL ? tape->autocast : LS_F32;
}

/* ---- operands ------------------------------------------------------------ */

static void round_to(const ls_tensor *half, const ls_tensor *from)
{
    lsi_array_convert(lsi_tensor_raw(half), half->dtype, lsi_tensor_raw(from),
                      from->dtype, (size_t)from->count);
}

/* Makes a half tensor in `place`, or in allocated memory if `place` is NULL. */
static ls_status make_half(ls_tensor **out, ls_dtype dtype,
                           const ls_tensor *like, void *place)
{
    if (place == NULL)
        return lsi_tensor_make(out,
                               &(lsi_tensor_spec){.dtype = dtype,
                                                  .ndim = like->ndim,
                                                  .shape = like->shape,
                                                  .tag = LS_MEMORY_PARAMETERS});
    return ls_tensor_wrap(out, place, dtype, like->ndim, like->shape, NULL);
}

/*
 * The parameter rounded to a half type; the first call after a change rounds
 * it. The copy belongs to the parameter, so later steps reuse its memory.
 */
static ls_status half_of(lsi_param *param, ls_dtype dtype, ls_tensor **out)
{
    void *place;
    if (param->half == NULL || param->half->dtype != dtype) {
        ls_tensor_free(&param->half);
        LS_TRY(lsi_param_half_place(param, dtype, &place));
        LS_TRY(make_half(&param->half, dtype, param->tensor, place));
        param->half_shared = place != NULL;
        param->half_version = 0;
    }
    assert(param->half_version <= param->set->version);
    if (param->half_version != param->set->version) {
        if (param->half_shared) {
            lsi_param_update_half(param);
        } else {
            LS_TRY(lsi_param_provide(param, (lsi_weights_need){false, true}));
            round_to(param->half, param->tensor);
        }
        param->half_version = param->set->version;
    }
    *out = param->half;
    return param->half_shared
               ? lsi_param_provide(param, (lsi_weights_need){true, true})
               : LS_OK;
}

/*
 * Rounds an operand. The copy lives until its operation has recorded itself;
 * the last copy lives until the next one is made. So layers of a block that
 * read the same tensor in a row share one copy.
 */
static ls_status round_operand(ls_tape *tape, ls_tensor *tensor,
                               ls_tensor **out)
{
    if (tape->rounded_from != tensor) {
        const ls_tensor *plain = lsi_op_plain(tape, tensor);
        ls_tensor *half = NULL;
        LS_TRY(tape->status);
        LS_TRY(lsi_tape_make(tape, tape->autocast, tensor->ndim, tensor->shape,
                             LSI_LAYOUT_PLAIN, &half));
        round_to(half, plain);
        lsi_tape_forget_rounded(tape);
        tape->rounded_from = ls_tensor_retain(tensor);
        tape->rounded = half;
    }
    *out = tape->rounded;
    return lsi_tape_own_temp(tape, ls_tensor_retain(tape->rounded));
}

ls_tensor *lsi_op_operand(ls_tape *tape, ls_tensor *tensor)
{
    ls_tensor *operand = tensor;
    ls_status status = tape->status;
    const bool rounds = lsi_tape_is_mixed(tape) && tensor->dtype == LS_F32;
    if (status != LS_OK)
        return NULL;
    if (rounds && tensor->param != NULL)
        status = half_of(tensor->param, tape->autocast, &operand);
    else
        status = lsi_tensor_check_input(tensor, "product");
    if (status == LS_OK && rounds && tensor->param == NULL)
        status = round_operand(tape, tensor, &operand);
    return status == LS_OK ? operand : lsi_tape_stop(tape, status);
}

ls_tensor *lsi_op_wide(ls_tape *tape, ls_tensor *tensor)
{
    return lsi_tape_is_mixed(tape) && lsi_is_half(tensor->dtype)
               ? ls_cast(tape, tensor, LS_F32)
               : tensor;
}

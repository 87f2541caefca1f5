/*
 * Mixed precision inside operations.
 *
 * A product gets its operands from lsi_op_operand, multiplies them, and records
 * the tensors that it was given. Gradients have the types of these tensors: f32
 * for parameters and for results of f32 operations.
 */
#ifndef LS_MODEL_AUTOGRAD_AUTOCAST_H
#define LS_MODEL_AUTOGRAD_AUTOCAST_H

#include "array/compute/dense.h"
#include "model/autograd/tape.h"

/* Whether products on this tape have half inputs. */
static inline bool lsi_tape_is_mixed(const ls_tape *tape)
{
    return tape->autocast != LS_F32;
}

/*
 * The operand of a product: the tensor itself or, if it is f32 and the tape
 * mixes precisions, a plain copy rounded to the half type. A parameter is
 * rounded once per change; a tensor that several products in a row read is
 * rounded once. NULL on failure.
 */
ls_tensor *lsi_op_operand(ls_tape *tape, ls_tensor *tensor);

/*
 * On a tape that mixes precisions: the tensor in f32. A half tensor is cast,
 * and the cast is recorded. NULL on failure.
 */
ls_tensor *lsi_op_wide(ls_tape *tape, ls_tensor *tensor);

#endif

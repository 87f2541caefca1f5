/*
 * Mixed precision inside operations.
 *
 * A product asks for its operands by lsi_op_operand, multiplies them, and
 * records the tensors that it was given: their gradients come in their own
 * types, so those of parameters, and of what f32 operations made, in f32.
 */
#ifndef LS_MODEL_AUTOGRAD_AUTOCAST_H
#define LS_MODEL_AUTOGRAD_AUTOCAST_H

#include "array/compute/dense.h"
#include "model/autograd/tape.h"

/* Whether products take half inputs on this tape. */
static inline bool lsi_tape_is_mixed(const ls_tape *tape)
{
    return tape->autocast != LS_F32;
}

/*
 * The tensor as a product multiplies it: itself, or if it is f32 and the tape
 * mixes, its elements rounded and plain. A parameter is rounded once until it
 * changes, and what several products in a row read, once. NULL on failure.
 */
ls_tensor *lsi_op_operand(ls_tape *tape, ls_tensor *tensor);

/*
 * If the tape mixes: the tensor in f32, by a cast that is recorded if it is
 * half. NULL on failure.
 */
ls_tensor *lsi_op_wide(ls_tape *tape, ls_tensor *tensor);

#endif

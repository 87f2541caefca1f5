/*
 * y = a where the condition is true, else b. All three inputs broadcast.
 *
 *     da = dy where it is true, else 0      db = dy where it is not, else 0
 *
 * The gradient of a repeated input is summed over its repetitions.
 */
#include "array/compute/array.h"
#include "base/error.h"
#include "model/autograd/ops/repeat.h"

enum { A, B };

/* The gradient of input `index`, A or B. */
static ls_status backward_of(ls_tape *tape, ls_node *node, int index,
                             const ls_tensor *dy)
{
    const ls_tensor *y = ls_node_output(node, 0),
                    *of = ls_node_input(node, index);
    const uint8_t *condition = lsi_tensor_raw(ls_node_saved(node, 0));
    const bool repeated = !lsi_shape_equal(y, of);
    lsi_target dx = {0};
    LS_TRY(lsi_target_open(tape, node, index, LSI_LAYOUT_PLAIN, &dx));
    if (dx.grad == NULL)
        return LS_OK;
    const size_t n = (size_t)y->count;
    float *kept = repeated ? ls_tape_scratch(tape, n * sizeof *kept)
                           : lsi_op_floats(dx.out);
    if (kept == NULL)
        return ls_tape_status(tape);
    lsi_array_keep_where(kept, condition, index == A, lsi_op_floats(dy), n);
    if (repeated) {
        const lsi_axes axes = lsi_op_repetitions(y, of);
        lsi_axes_sum(&axes, lsi_op_floats(dx.out), kept, 1.0);
    }
    return lsi_target_close(&dx);
}

static ls_status where_backward(ls_tape *tape, ls_node *node)
{
    const ls_tensor *dy = ls_node_grad_output(tape, node, 0);
    LS_TRY(ls_tape_status(tape));
    LS_TRY(backward_of(tape, node, A, dy));
    return backward_of(tape, node, B, dy);
}

const ls_function lsi_op_where = {"where", where_backward, 0};

static bool begin(ls_tape *tape, ls_tensor *condition, ls_tensor **in,
                  lsi_op_shape *shape)
{
    const ls_function *const op = &lsi_op_where;
    return lsi_op_begin(tape, op, (ls_tensor *const[]){condition, in[A], in[B]},
                        3) &&
           lsi_op_check_dtype(tape, op, condition, LS_U8) &&
           lsi_op_begin_f32(tape, op, in, 2) &&
           lsi_op_broadcast(tape, op, condition, shape) &&
           lsi_op_broadcast(tape, op, in[A], shape) &&
           lsi_op_broadcast(tape, op, in[B], shape);
}

ls_tensor *ls_where(ls_tape *tape, ls_tensor *condition, ls_tensor *a,
                    ls_tensor *b)
{
    ls_tensor *in[] = {a, b};
    lsi_op_shape shape = {0};
    if (!begin(tape, condition, in, &shape))
        return NULL;
    ls_tensor *const chosen = lsi_op_repeat(tape, condition, &shape);
    const ls_tensor *x = lsi_op_repeat(tape, in[A], &shape);
    const ls_tensor *z = lsi_op_repeat(tape, in[B], &shape);
    ls_tensor *y = ls_tape_output(tape, LS_F32, shape.ndim, shape.extent);
    if (y == NULL)
        return NULL;
    lsi_array_where(lsi_op_floats(y), lsi_tensor_raw(chosen), lsi_op_floats(x),
                    lsi_op_floats(z), (size_t)y->count);
    return ls_tape_record(tape, &lsi_op_where, NULL, in, 2, &y, 1, &chosen, 1);
}

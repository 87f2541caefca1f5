/*
 * Comparisons, element by element, for the condition of where: u8, 1 where
 * true. They have no gradient, and are not recorded.
 */
#include "array/compute/functions.h"
#include "model/autograd/ops/repeat.h"

typedef void (*compare_fn)(uint8_t *y, const float *a, const float *b,
                           size_t n);

static ls_tensor *compare(ls_tape *tape, const ls_function *op,
                          compare_fn function, ls_tensor *a, ls_tensor *b)
{
    ls_tensor *in[] = {a, b};
    lsi_op_shape shape = {0};
    if (!lsi_op_begin_f32(tape, op, in, 2) ||
        !lsi_op_broadcast(tape, op, in[0], &shape) ||
        !lsi_op_broadcast(tape, op, in[1], &shape))
        return NULL;
    const ls_tensor *x = lsi_op_repeat(tape, in[0], &shape);
    const ls_tensor *z = lsi_op_repeat(tape, in[1], &shape);
    ls_tensor *y = ls_tape_output(tape, LS_U8, shape.ndim, shape.extent);
    if (y == NULL)
        return NULL;
    function(lsi_tensor_raw(y), lsi_op_floats(x), lsi_op_floats(z),
             (size_t)y->count);
    return y;
}

#define X(name, ...)                                                           \
    static const ls_function op_##name = {#name, NULL, 0};                     \
    ls_tensor *ls_##name(ls_tape *tape, ls_tensor *a, ls_tensor *b)            \
    {                                                                          \
        return compare(tape, &op_##name, lsi_array_##name, a, b);              \
    }
LSI_COMPARISONS(X)
#undef X

ls_tensor *ls_scalar(ls_tape *tape, double value)
{
    ls_tensor *y = ls_tape_output(tape, LS_F32, 0, NULL);
    if (y != NULL)
        *lsi_op_floats(y) = (float)value;
    return y;
}

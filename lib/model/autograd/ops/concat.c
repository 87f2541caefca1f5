/*
 * y = the parts, one after another along an axis.
 *
 *     d part = dy in the part's range
 *
 * The parts have one type, which may be any. In mixed precision, parts of
 * different real types are widened to f32.
 */
#include <limits.h>

#include "array/compute/copy.h"
#include "base/error.h"
#include "model/autograd/ops/ops.h"

typedef struct concat_state {
    int axis;
} concat_state;

/* The elements of a tensor, from an index along an axis on. */
static lsi_strided from_index(const ls_tensor *t, int axis, int64_t index)
{
    char *data = lsi_tensor_raw(t);
    const int64_t skipped = index * t->strides[axis];
    return lsi_strided_of(data + skipped * (int64_t)ls_dtype_size(t->dtype),
                          t->dtype, t->ndim, t->strides);
}

/* ---- backward ------------------------------------------------------------ */

static ls_status part_backward(ls_tape *tape, ls_node *node, int index,
                               const ls_tensor *dy, int64_t begin)
{
    const concat_state *state = ls_node_state(node);
    lsi_target dx = {0};
    LS_TRY(lsi_target_open(tape, node, index, LSI_LAYOUT_PLAIN, &dx));
    if (dx.grad == NULL || dx.out->count == 0)
        return LS_OK;
    const lsi_strided from = from_index(dy, state->axis, begin);
    const lsi_strided to = from_index(dx.out, state->axis, 0);
    lsi_copy_strided(&to, &from, dx.out->ndim, dx.out->shape);
    return lsi_target_close(&dx);
}

static ls_status concat_backward(ls_tape *tape, ls_node *node)
{
    const concat_state *state = ls_node_state(node);
    const ls_tensor *dy = ls_node_grad_output(tape, node, 0);
    LS_TRY(ls_tape_status(tape));
    int64_t begin = 0;
    for (int i = 0; ls_node_input(node, i) != NULL; i++) {
        LS_TRY(part_backward(tape, node, i, dy, begin));
        begin += ls_node_input(node, i)->shape[state->axis];
    }
    return LS_OK;
}

const ls_function lsi_op_concat = {"concat", concat_backward,
                                   sizeof(concat_state)};

/* ---- forward ------------------------------------------------------------- */

static bool check_part(ls_tape *tape, const ls_tensor *first,
                       const ls_tensor *part, int axis)
{
    bool fits = part->ndim == first->ndim;
    for (int d = 0; fits && d < first->ndim; d++)
        fits = d == axis || part->shape[d] == first->shape[d];
    if (!fits)
        ls_tape_fail(tape, LS_ERR_SHAPE,
                     "concat: shapes %s and %s may differ only along axis %d",
                     lsi_shape_of(first).text, lsi_shape_of(part).text, axis);
    return fits;
}

/* The type of the result; false without a common type. */
static bool find_type(ls_tape *tape, ls_tensor *const *parts, size_t n,
                      ls_dtype *out)
{
    *out = parts[0]->dtype;
    for (size_t i = 1; i < n; i++) {
        if (parts[i]->dtype == *out)
            continue;
        if (!lsi_tape_is_mixed(tape) || !lsi_dtype_is_real(*out) ||
            !lsi_dtype_is_real(parts[i]->dtype)) {
            ls_tape_fail(tape, LS_ERR_DTYPE,
                         "concat: part 0 has dtype %s, but part %zu has dtype "
                         "%s; all parts must have the same dtype",
                         ls_dtype_name(*out), i,
                         ls_dtype_name(parts[i]->dtype));
            return false;
        }
        *out = LS_F32;
    }
    return true;
}

static bool check(ls_tape *tape, ls_tensor *const *parts, size_t n, int axis,
                  int64_t *extent)
{
    if (!lsi_op_check_axis(tape, &lsi_op_concat, parts[0], axis))
        return false;
    *extent = 0;
    for (size_t i = 0; i < n; i++) {
        if (!check_part(tape, parts[0], parts[i], axis))
            return false;
        *extent += parts[i]->shape[axis];
    }
    return true;
}

ls_tensor *ls_concat(ls_tape *tape, ls_tensor *const *parts, size_t n, int axis)
{
    const concat_state state = {axis};
    int64_t shape[LS_MAX_DIMS], extent = 0, begin = 0;
    ls_dtype dtype = LS_F32;
    if (!lsi_tape_has(tape, parts, "concat", "parts"))
        return NULL;
    if (n < 1 || n > INT_MAX)
        return ls_tape_fail(tape, LS_ERR_ARGUMENT,
                            "concat: got %zu parts, expected 1 to %d", n,
                            INT_MAX);
    if (!lsi_op_begin(tape, &lsi_op_concat, parts, (int)n) ||
        !check(tape, parts, n, axis, &extent) ||
        !find_type(tape, parts, n, &dtype))
        return NULL;
    for (int d = 0; d < parts[0]->ndim; d++)
        shape[d] = d == axis ? extent : parts[0]->shape[d];
    ls_tensor *y = ls_tape_output(tape, dtype, parts[0]->ndim, shape);
    if (y == NULL)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        const ls_status status = lsi_tensor_plain(parts[i]);
        if (status != LS_OK)
            return lsi_tape_stop(tape, status);
        const lsi_strided to = from_index(y, axis, begin);
        const lsi_strided from = from_index(parts[i], axis, 0);
        if (parts[i]->count > 0)
            lsi_copy_strided(&to, &from, y->ndim, parts[i]->shape);
        begin += parts[i]->shape[axis];
    }
    return ls_tape_record(tape, &lsi_op_concat, &state, parts, n, &y, 1, NULL,
                          0);
}

/*
 * Rotary positions: x (batch, rows, heads, d), cosine and sine (at least rows,
 * d/2). Pair k of row t, (a, b) = (x[2k], x[2k+1]), turns by an angle of which
 * the tables have cosine and sine at (t, k):
 *
 *     (cos a - sin b, sin a + cos b)
 *
 * The pairs may be (x[k], x[d/2 + k]) instead. Backward turns dy by the
 * opposite angle. The tables have no gradient.
 */
#include "array/compute/rope.h"
#include "base/error.h"
#include "model/autograd/ops/ops.h"

enum { X, COSINE, SINE };

static size_t rows_of(const lsi_rope *rope, const ls_tensor *x)
{
    return x->count > 0 ? (size_t)x->count / (rope->heads * rope->d) : 0;
}

static ls_status rope_backward(ls_tape *tape, ls_node *node)
{
    const lsi_rope *rope = ls_node_state(node);
    const ls_tensor *dy = ls_node_grad_output(tape, node, 0);
    lsi_target dx = {0};
    LS_TRY(ls_tape_status(tape));
    LS_TRY(lsi_target_open(tape, node, X, LSI_LAYOUT_PLAIN, &dx));
    if (dx.grad == NULL)
        return LS_OK;
    lsi_rope_backward(rope, lsi_op_floats(dx.out), lsi_op_floats(dy),
                      lsi_op_floats(ls_node_saved(node, COSINE - 1)),
                      lsi_op_floats(ls_node_saved(node, SINE - 1)),
                      rows_of(rope, dx.out));
    return lsi_target_close(&dx);
}

const ls_function lsi_op_rope = {"rope", rope_backward, sizeof(lsi_rope)};

static bool check(ls_tape *tape, ls_tensor *const *in)
{
    const ls_tensor *x = in[X], *cosine = in[COSINE];
    if (!lsi_op_check_ndim(tape, &lsi_op_rope, x, 4,
                           "(batch, rows, heads, d) for x") ||
        !lsi_op_check_equal(tape, &lsi_op_rope, cosine, in[SINE]))
        return false;
    if (x->shape[3] % 2 == 0 && cosine->ndim == 2 &&
        cosine->shape[0] >= x->shape[1] && cosine->shape[1] * 2 == x->shape[3])
        return true;
    ls_tape_fail(tape, LS_ERR_SHAPE,
                 "rope: x has shape %s; it must be (batch, rows, heads, d) "
                 "with an even d. The tables have shape %s; they must be (n, "
                 "d/2), with n at least rows",
                 lsi_shape_of(x).text, lsi_shape_of(cosine).text);
    return false;
}

static ls_tensor *rotate(ls_tape *tape, ls_tensor **in, lsi_rope_pairing layout)
{
    if (!lsi_op_begin_f32(tape, &lsi_op_rope, in, 3) || !check(tape, in))
        return NULL;
    const int64_t *shape = in[X]->shape;
    const lsi_rope rope = {(size_t)shape[1], (size_t)shape[2], (size_t)shape[3],
                           layout};
    const ls_tensor *from = lsi_op_plain(tape, in[X]);
    ls_tensor *const saved[] = {lsi_op_plain(tape, in[COSINE]),
                                lsi_op_plain(tape, in[SINE])};
    ls_tensor *y = ls_tape_output(tape, LS_F32, 4, shape);
    if (y == NULL)
        return NULL;
    lsi_rope_forward(&rope, lsi_op_floats(y), lsi_op_floats(from),
                     lsi_op_floats(saved[COSINE - 1]),
                     lsi_op_floats(saved[SINE - 1]), rows_of(&rope, y));
    return ls_tape_record(tape, &lsi_op_rope, &rope, in, 1, &y, 1, saved, 2);
}

ls_tensor *ls_rope(ls_tape *tape, ls_tensor *x, ls_tensor *cosine,
                   ls_tensor *sine, ls_rope_layout layout)
{
    static const lsi_rope_pairing layouts[] = {
        [LS_ROPE_PAIRS] = LSI_ROPE_PAIRS,
        [LS_ROPE_PAIRS_TO_HALVES] = LSI_ROPE_TO_HALVES,
        [LS_ROPE_HALVES] = LSI_ROPE_HALVES};
    ls_tensor *in[] = {x, cosine, sine};
    if ((size_t)layout >= sizeof(layouts) / sizeof(layouts[0]))
        return ls_tape_fail(
            tape, LS_ERR_ARGUMENT,
            "rope: layout is %d, which is not an ls_rope_layout", (int)layout);
    return rotate(tape, in, layouts[layout]);
}

/*
 * Rotary positions: x (batch, rows, heads, d), cosine and sine (at least rows,
 * d/2). Pair k of row t, (a, b) = (x[2k], x[2k+1]), turns by an angle of which
 * the tables have cosine and sine at (t, k):
 *
 *     (cos a - sin b, sin a + cos b)
 *
 * and backward turns dy by the opposite angle. The tables have no gradient.
 */
#include "autograd/ops/ops.h"
#include "base/error.h"
#include "base/threads.h"
#include "kernels/kernels.h"

enum { X, COSINE, SINE };

typedef struct rope_state {
    size_t length, heads, d; /* rows of a sequence */
    bool halves;
} rope_state;

typedef struct rope_job {
    rope_state s;
    float *to;
    const float *from, *cosine, *sine;
    bool backward;
} rope_job;

static void turn(void *context, size_t begin, size_t end)
{
    const rope_job *j = context;
    const lsi_kernels *k = lsi_kernels_get();
    const size_t width = j->s.heads * j->s.d;
    for (size_t row = begin; row < end; row++) {
        const size_t angle = row % j->s.length * (j->s.d / 2);
        float *to = j->to + row * width;
        const float *from = j->from + row * width;
        if (j->backward)
            k->rope_backward(to, from, j->cosine + angle, j->sine + angle,
                             j->s.heads, j->s.d, j->s.halves);
        else
            k->rope(to, from, j->cosine + angle, j->sine + angle, j->s.heads,
                    j->s.d, j->s.halves);
    }
}

static void run(rope_job *j, const ls_tensor *to)
{
    const size_t width = j->s.heads * j->s.d;
    if (to->count > 0)
        lsi_parallel_for((size_t)to->count / width, 8, turn, j);
}

static ls_status rope_backward(ls_tape *tape, ls_node *node)
{
    const rope_state *s = ls_node_state(node);
    const ls_tensor *dy = ls_node_grad_output(tape, node, 0);
    lsi_target dx = {0};
    LS_TRY(ls_tape_status(tape));
    LS_TRY(lsi_target_open(tape, node, X, LSI_LAYOUT_PLAIN, &dx));
    if (dx.grad == NULL)
        return LS_OK;
    rope_job j = {.s = *s,
                  .to = lsi_op_floats(dx.out),
                  .from = lsi_op_floats(dy),
                  .cosine = lsi_op_floats(ls_node_saved(node, COSINE - 1)),
                  .sine = lsi_op_floats(ls_node_saved(node, SINE - 1)),
                  .backward = true};
    run(&j, dx.out);
    return lsi_target_close(&dx);
}

const ls_function lsi_op_rope = {"rope", rope_backward, sizeof(rope_state)};

static bool check(ls_tape *tape, ls_tensor *const *in)
{
    const ls_tensor *x = in[X], *cosine = in[COSINE];
    if (!lsi_op_check_ndim(tape, &lsi_op_rope, x, 4,
                           "(batch, rows, heads, d)") ||
        !lsi_op_check_equal(tape, &lsi_op_rope, cosine, in[SINE]))
        return false;
    if (x->shape[3] % 2 == 0 && cosine->ndim == 2 &&
        cosine->shape[0] >= x->shape[1] && cosine->shape[1] * 2 == x->shape[3])
        return true;
    ls_tape_fail(tape, LS_ERR_SHAPE,
                 "rope: x %s and the tables %s should be (batch, rows, heads, "
                 "d), d even, and (at least rows, d/2)",
                 lsi_shape_of(x).text, lsi_shape_of(cosine).text);
    return false;
}

ls_tensor *ls_rope(ls_tape *tape, ls_tensor *x, ls_tensor *cosine,
                   ls_tensor *sine, bool halves)
{
    ls_tensor *in[] = {x, cosine, sine};
    if (!lsi_op_begin_f32(tape, &lsi_op_rope, in, 3) || !check(tape, in))
        return NULL;
    const rope_state s = {(size_t)x->shape[1], (size_t)x->shape[2],
                          (size_t)x->shape[3], halves};
    const ls_tensor *from = lsi_op_plain(tape, in[X]);
    ls_tensor *const saved[] = {lsi_op_plain(tape, in[COSINE]),
                                lsi_op_plain(tape, in[SINE])};
    ls_tensor *y = ls_tape_output(tape, LS_F32, 4, x->shape);
    if (y == NULL)
        return NULL;
    rope_job j = {.s = s,
                  .to = lsi_op_floats(y),
                  .from = lsi_op_floats(from),
                  .cosine = lsi_op_floats(saved[COSINE - 1]),
                  .sine = lsi_op_floats(saved[SINE - 1])};
    run(&j, y);
    return ls_tape_record(tape, &lsi_op_rope, &s, in, 1, &y, 1, saved, 2);
}

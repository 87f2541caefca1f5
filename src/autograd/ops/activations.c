/*
 * Activations of transformers, s(z) = 1 / (1 + e^-z).
 *
 *     swiglu   y = a s(a) b      da = dy b s (1 + a (1 - s)), db = dy a s
 *     gelu     y = a s(z(a))     da = dy dy/da; z as in kernels/activations.h
 *
 * The inputs are saved, and what was computed of them computed again.
 */
#include "autograd/ops/ops.h"
#include "base/error.h"
#include "base/threads.h"
#include "kernels/kernels.h"

enum { A, B };
enum { GRAIN = 1 << 12 }; /* elements that are worth a thread */

typedef struct activation_job {
    float *y;
    const float *a, *b;
    float *da, *db;
    const float *dy;
    bool accumulate;
} activation_job;

/* ---- swiglu -------------------------------------------------------------- */

static void swiglu_range(void *context, size_t begin, size_t end)
{
    const activation_job *j = context;
    lsi_kernels_get()->swiglu(j->y + begin, j->a + begin, j->b + begin,
                              end - begin);
}

static void swiglu_backward_range(void *context, size_t begin, size_t end)
{
    const activation_job *j = context;
    lsi_kernels_get()->swiglu_backward(j->da + begin, j->db + begin,
                                       j->dy + begin, j->a + begin,
                                       j->b + begin, end - begin);
}

/* Where a gradient goes; scratch memory if nobody needs it. */
static ls_status open_target(ls_tape *tape, ls_node *node, int index,
                             lsi_target *target, float **memory)
{
    LS_TRY(lsi_target_open(tape, node, index, LSI_LAYOUT_PLAIN, target));
    const ls_tensor *input = ls_node_saved(node, index);
    *memory = target->grad != NULL
                  ? lsi_op_floats(target->out)
                  : ls_tape_scratch(tape, (size_t)input->count * sizeof(float));
    return *memory != NULL ? LS_OK : ls_tape_status(tape);
}

static ls_status close_target(const lsi_target *target)
{
    return target->grad != NULL ? lsi_target_close(target) : LS_OK;
}

static ls_status swiglu_backward(ls_tape *tape, ls_node *node)
{
    const ls_tensor *a = ls_node_saved(node, A), *b = ls_node_saved(node, B);
    const ls_tensor *dy = ls_node_grad_output(tape, node, 0);
    lsi_target da = {0}, db = {0};
    activation_job j = {.a = lsi_op_floats(a), .b = lsi_op_floats(b)};
    if (dy == NULL)
        return ls_tape_status(tape);
    LS_TRY(open_target(tape, node, A, &da, &j.da));
    LS_TRY(open_target(tape, node, B, &db, &j.db));
    j.dy = lsi_op_floats(dy);
    lsi_parallel_for((size_t)a->count, GRAIN, swiglu_backward_range, &j);
    LS_TRY(close_target(&da));
    return close_target(&db);
}

const ls_function lsi_op_swiglu = {"swiglu", swiglu_backward, 0};

ls_tensor *ls_swiglu(ls_tape *tape, ls_tensor *a, ls_tensor *b)
{
    ls_tensor *const in[] = {a, b};
    if (!lsi_op_begin_f32(tape, &lsi_op_swiglu, in, 2) ||
        !lsi_op_check_equal(tape, &lsi_op_swiglu, a, b))
        return NULL;
    ls_tensor *const saved[] = {lsi_op_plain(tape, a), lsi_op_plain(tape, b)};
    ls_tensor *y = ls_tape_output(tape, LS_F32, a->ndim, a->shape);
    if (y == NULL)
        return NULL;
    activation_job j = {.y = lsi_op_floats(y),
                        .a = lsi_op_floats(saved[A]),
                        .b = lsi_op_floats(saved[B])};
    lsi_parallel_for((size_t)y->count, GRAIN, swiglu_range, &j);
    return ls_tape_record(tape, &lsi_op_swiglu, NULL, in, 2, &y, 1, saved, 2);
}

/* ---- gelu ---------------------------------------------------------------- */

static void gelu_range(void *context, size_t begin, size_t end)
{
    const activation_job *j = context;
    lsi_kernels_get()->gelu(j->y + begin, j->a + begin, end - begin);
}

static void gelu_backward_range(void *context, size_t begin, size_t end)
{
    const activation_job *j = context;
    lsi_kernels_get()->gelu_backward(j->da + begin, j->dy + begin, j->a + begin,
                                     end - begin, j->accumulate);
}

static ls_status gelu_backward(ls_tape *tape, ls_node *node)
{
    const ls_tensor *a = ls_node_saved(node, A);
    const ls_tensor *dy = ls_node_grad_output(tape, node, 0);
    activation_job j = {.a = lsi_op_floats(a)};
    const ls_tensor *da = ls_node_grad_input(tape, node, A, &j.accumulate);
    if (dy == NULL || da == NULL)
        return ls_tape_status(tape);
    j.dy = lsi_op_floats(dy);
    j.da = lsi_op_floats(da);
    lsi_parallel_for((size_t)a->count, GRAIN, gelu_backward_range, &j);
    return LS_OK;
}

const ls_function lsi_op_gelu = {"gelu", gelu_backward, 0};

ls_tensor *ls_gelu(ls_tape *tape, ls_tensor *a)
{
    if (!lsi_op_begin_f32(tape, &lsi_op_gelu, &a, 1))
        return NULL;
    ls_tensor *const saved[] = {lsi_op_plain(tape, a)};
    ls_tensor *y = ls_tape_output(tape, LS_F32, a->ndim, a->shape);
    if (y == NULL)
        return NULL;
    activation_job j = {.y = lsi_op_floats(y), .a = lsi_op_floats(saved[A])};
    lsi_parallel_for((size_t)y->count, GRAIN, gelu_range, &j);
    return ls_tape_record(tape, &lsi_op_gelu, NULL, &a, 1, &y, 1, saved, 1);
}

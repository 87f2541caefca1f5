/*
 * Dropout of an f32 tensor: y = keep a / (1 - p), where keep is 1 with
 * probability 1 - p, else 0.
 *
 *     da = keep dy / (1 - p)
 *
 * keep is a pure function of the tape's random key, the step, the number of
 * this random operation, and the element's index in row-major order. On a tape
 * that knows its samples, the key has the sample in place of the stream, and
 * the index is that in the sample. Nothing is saved: backward computes keep
 * again.
 */
#include <math.h>

#include "array/compute/array.h"
#include "base/error.h"
#include "model/autograd/ops/ops.h"

/* Random operations of one step have 24 bits, steps the rest. */
#define STEP_SHIFT 24

typedef struct dropout_state {
    lsi_dropout dropout;
    ls_tape_samples samples;
} dropout_state;

static void drop(const dropout_state *s, float *y, const float *x, size_t n)
{
    if (s->samples.struct_size == 0) {
        lsi_array_dropout(y, x, n, &s->dropout);
        return;
    }
    const int64_t count = s->samples.count;
    const size_t each = count > 0 ? n / (size_t)count : 0;
    for (int64_t i = 0; i < count; i++) {
        lsi_dropout of = s->dropout;
        of.key.stream = (uint64_t)ls_tape_sample(&s->samples, i);
        lsi_array_dropout(y + (size_t)i * each, x + (size_t)i * each, each,
                          &of);
    }
}

static ls_status dropout_backward(ls_tape *tape, ls_node *node)
{
    const dropout_state *state = ls_node_state(node);
    const ls_tensor *dy = ls_node_grad_output(tape, node, 0);
    LS_TRY(ls_tape_status(tape));
    const float *from = lsi_op_floats(dy);
    lsi_target dx = {0};
    LS_TRY(lsi_target_open_over(tape, node, 0, LSI_LAYOUT_PLAIN, &dx));
    if (dx.grad == NULL)
        return LS_OK;
    drop(state, lsi_op_floats(dx.out), from, (size_t)dx.out->count);
    return lsi_target_close(&dx);
}

const ls_function lsi_op_dropout = {"dropout", dropout_backward,
                                    sizeof(dropout_state)};

static lsi_dropout next_dropout(ls_tape *tape, double p)
{
    tape->random_was_used = true;
    const double threshold = fmin(nearbyint(p * 0x1p32), 0x1p32 - 1.0);
    return (lsi_dropout){
        .key = tape->random_key,
        .sub = (tape->random_step << STEP_SHIFT) + tape->random_ops++,
        .threshold = (uint32_t)threshold,
        .factor = (float)(1.0 / (1.0 - p)),
    };
}

ls_tensor *ls_dropout(ls_tape *tape, ls_tensor *a, double p)
{
    if (!lsi_op_begin_f32(tape, &lsi_op_dropout, &a, 1))
        return NULL;
    if (!(p >= 0.0 && p < 1.0))
        return ls_tape_fail(tape, LS_ERR_ARGUMENT,
                            "dropout: p is %g; it must be at least 0 and "
                            "below 1",
                            p);
    if (!tape->training || p == 0.0)
        return lsi_op_identity(tape, a);
    size_t each;
    if (lsi_tape_knows_samples(tape) &&
        !lsi_rows_of_samples(tape, &lsi_op_dropout,
                             a->ndim > 0 ? a->shape[0] : 1, &each))
        return NULL;
    const ls_tensor *x = lsi_op_plain(tape, a);
    ls_tensor *y = x != NULL ? lsi_op_like(tape, x) : NULL;
    if (y == NULL)
        return NULL;
    const dropout_state state = {next_dropout(tape, p), tape->samples};
    drop(&state, lsi_op_floats(y), lsi_op_floats(x), (size_t)y->count);
    return ls_tape_record(tape, &lsi_op_dropout, &state, &a, 1, &y, 1, NULL, 0);
}

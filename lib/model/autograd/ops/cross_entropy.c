/*
 * y = mean over rows r of log sum exp x[r] - sum over c of q[r][c] x[r][c]. The
 * targets with smoothing s are q[r][c] = (1 - s) [c = label r] + s / C. The
 * inputs are x (N, C) f32 and labels (N) i64; y = 0 for N = 0.
 *
 *     dx[r][c] = dy / N (softmax x[r] [c] - q[r][c])
 */
#include "array/compute/array.h"
#include "array/compute/losses.h"
#include "base/error.h"
#include "base/structs.h"
#include "model/autograd/ops/ops.h"

enum { LOGITS, LABELS, ROWS };

/* Rows saved for backward: (N, 2) f32, see lsi_softmax_row. */
static ls_tensor *saved_rows(ls_tape *tape, int64_t rows)
{
    const int64_t floats = sizeof(lsi_softmax_row) / sizeof(float);
    return lsi_op_temp(tape, LS_F32, 2, (const int64_t[]){rows, floats});
}

static lsi_cross_entropy problem(const ls_tensor *logits,
                                 const ls_tensor *labels, double smoothing)
{
    return (lsi_cross_entropy){.x = lsi_op_floats(logits),
                               .labels = lsi_tensor_raw(labels),
                               .rows = (size_t)logits->shape[0],
                               .cols = (size_t)logits->shape[1],
                               .smoothing = smoothing};
}

static ls_status cross_entropy_backward(ls_tape *tape, ls_node *node)
{
    const double *smoothing = ls_node_state(node);
    const ls_tensor *x = ls_node_saved(node, LOGITS);
    const ls_tensor *dy = ls_node_grad_output(tape, node, 0);
    bool accumulate = false;
    const ls_tensor *dx = ls_node_grad_input(tape, node, 0, &accumulate);
    if (dx == NULL || dy == NULL || x->shape[0] == 0)
        return ls_tape_status(tape);
    const lsi_cross_entropy ce =
        problem(x, ls_node_saved(node, LABELS), *smoothing);
    return lsi_cross_entropy_backward(&ce, lsi_op_floats(dy),
                                      lsi_tensor_raw(ls_node_saved(node, ROWS)),
                                      lsi_op_floats(dx), accumulate);
}

const ls_function lsi_op_cross_entropy = {
    "cross_entropy", cross_entropy_backward, sizeof(double)};

static bool check_shapes(ls_tape *tape, const ls_tensor *logits,
                         const ls_tensor *labels)
{
    if (!lsi_op_check_dtype(tape, &lsi_op_cross_entropy, labels, LS_I64))
        return false;
    if (logits->ndim == 2 && labels->ndim == 1 &&
        logits->shape[0] == labels->shape[0])
        return true;
    ls_tape_fail(tape, LS_ERR_SHAPE,
                 "cross_entropy: logits have shape %s and labels have shape "
                 "%s; they must be (N, C) and (N)",
                 lsi_shape_of(logits).text, lsi_shape_of(labels).text);
    return false;
}

/*
 * Adds up the losses of rows slice by slice, so that their sum does not depend
 * on the number of ranks. The tape keeps the sums in double.
 */
static bool sum_slices(ls_tape *tape, const float *losses, int64_t rows,
                       ls_tensor *y)
{
    lsi_slicing s = {(size_t)tape->samples.count, 0, tape->samples.slices};
    if (!lsi_rows_of_samples(tape, &lsi_op_cross_entropy, rows, &s.each))
        return false;
    for (int j = 0; j < s.slices; j++) {
        const lsi_range some = lsi_slicing_rows(&s, j);
        tape->loss_sums[j] =
            lsi_array_total(losses + some.begin, NULL, lsi_range_size(some));
    }
    tape->loss = y;
    const double sum = lsi_slices_fold(tape->loss_sums, s.slices);
    *lsi_op_floats(y) = rows > 0 ? (float)(sum / (double)rows) : 0.0F;
    return true;
}

static ls_tensor *smoothed(ls_tape *tape, ls_tensor *logits, ls_tensor *labels,
                           double smoothing)
{
    if (!(smoothing >= 0.0 && smoothing <= 1.0))
        return ls_tape_fail(
            tape, LS_ERR_ARGUMENT,
            "cross_entropy: label smoothing is %g; it must be from 0 to 1",
            smoothing);
    const int64_t rows = logits->shape[0];
    ls_tensor *const saved[] = {lsi_op_plain(tape, logits),
                                lsi_op_plain(tape, labels),
                                saved_rows(tape, rows)};
    const ls_tensor *losses = lsi_op_temp(tape, LS_F32, 1, &rows);
    ls_tensor *y = ls_tape_output(tape, LS_F32, 0, NULL);
    if (y == NULL)
        return NULL;
    const lsi_cross_entropy ce =
        problem(saved[LOGITS], saved[LABELS], smoothing);
    const ls_status status =
        lsi_cross_entropy_forward(&ce, lsi_op_floats(y), lsi_op_floats(losses),
                                  lsi_tensor_raw(saved[ROWS]));
    if (status != LS_OK)
        return lsi_tape_stop(tape, status);
    if (lsi_tape_knows_samples(tape) &&
        !sum_slices(tape, lsi_op_floats(losses), rows, y))
        return NULL;
    return ls_tape_record(tape, &lsi_op_cross_entropy, &smoothing, &logits, 1,
                          &y, 1, saved, 3);
}

ls_tensor *ls_cross_entropy(ls_tape *tape, ls_tensor *logits, ls_tensor *labels,
                            const ls_cross_entropy_options *options)
{
    static const ls_cross_entropy_options usual = LS_CROSS_ENTROPY_OPTIONS_INIT;
    ls_cross_entropy_options o;
    if (!lsi_op_begin_f32(tape, &lsi_op_cross_entropy, &logits, 1) ||
        !lsi_op_begin(tape, &lsi_op_cross_entropy, &labels, 1) ||
        !check_shapes(tape, logits, labels))
        return NULL;
    const ls_status status =
        LSI_STRUCT_READ(&o, options != NULL ? options : &usual,
                        ls_cross_entropy_options, smoothing);
    return status == LS_OK ? smoothed(tape, logits, labels, o.smoothing)
                           : lsi_tape_stop(tape, status);
}

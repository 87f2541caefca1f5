/*
 * y = mean over rows r of lse[r] - x[r][label r], lse[r] = log sum exp x[r].
 * x (N, C) f32, labels (N) i64; y = 0 for N = 0.
 *
 *     dx[r][c] = dy / N (exp(x[r][c] - lse[r]) - [c = label r])
 */
#include "autograd/ops/ops.h"
#include "autograd/span.h"
#include "base/error.h"
#include "base/threads.h"
#include "kernels/kernels.h"

enum { LOGITS, LABELS, LSE };

/* Rows are computed one by one, so threads may divide them as they like. */
typedef struct rows_job {
    const float *x;
    const int64_t *labels;
    float *loss, *lse;   /* forward */
    float *dx;           /* backward */
    const float *lse_of; /* backward */
    float factor;
    bool accumulate;
    size_t cols;
} rows_job;

/* Rows that make up a few thousand elements. */
static size_t grain(size_t cols)
{
    return 1 + ((size_t)1 << 13) / (cols + 1);
}

static void forward_rows(void *context, size_t begin, size_t end)
{
    const rows_job *job = context;
    lsi_kernels_get()->cross_entropy(
        job->loss + begin, job->lse + begin, job->x + begin * job->cols,
        job->labels + begin, end - begin, job->cols);
}

static void backward_rows(void *context, size_t begin, size_t end)
{
    const rows_job *job = context;
    const size_t first = begin * job->cols;
    lsi_kernels_get()->cross_entropy_backward(
        job->dx + first, job->x + first, job->lse_of + begin,
        job->labels + begin, job->factor, end - begin, job->cols,
        job->accumulate);
}

static ls_status cross_entropy_backward(ls_tape *tape, ls_node *node)
{
    const ls_tensor *x = ls_node_saved(node, LOGITS);
    const ls_tensor *dy = ls_node_grad_output(tape, node, 0);
    const size_t rows = (size_t)x->shape[0];
    bool accumulate = false;
    const ls_tensor *dx = ls_node_grad_input(tape, node, 0, &accumulate);
    if (dx == NULL || dy == NULL || rows == 0)
        return ls_tape_status(tape);
    rows_job job = {
        .x = lsi_op_floats(x),
        .labels = lsi_tensor_raw(ls_node_saved(node, LABELS)),
        .dx = lsi_op_floats(dx),
        .lse_of = lsi_op_floats(ls_node_saved(node, LSE)),
        .factor = (float)((double)lsi_op_floats(dy)[0] / (double)rows),
        .accumulate = accumulate,
        .cols = (size_t)x->shape[1],
    };
    lsi_parallel_for(rows, grain(job.cols), backward_rows, &job);
    return LS_OK;
}

const ls_function lsi_op_cross_entropy = {"cross_entropy",
                                          cross_entropy_backward, 0};

static bool check_shapes(ls_tape *tape, const ls_tensor *logits,
                         const ls_tensor *labels)
{
    if (!lsi_op_check_dtype(tape, &lsi_op_cross_entropy, labels, LS_I64))
        return false;
    if (logits->ndim == 2 && labels->ndim == 1 &&
        logits->shape[0] == labels->shape[0])
        return true;
    ls_tape_fail(tape, LS_ERR_SHAPE,
                 "cross_entropy: logits %s and labels %s should be (N, C) and "
                 "(N)",
                 lsi_shape_of(logits).text, lsi_shape_of(labels).text);
    return false;
}

static bool check_labels(ls_tape *tape, const int64_t *labels, int64_t rows,
                         int64_t classes)
{
    for (int64_t r = 0; r < rows; r++) {
        if (labels[r] >= 0 && labels[r] < classes)
            continue;
        ls_tape_fail(tape, LS_ERR_ARGUMENT,
                     "cross_entropy: the label of row %lld is %lld; it must "
                     "be at least 0 and below %lld",
                     (long long)r, (long long)labels[r], (long long)classes);
        return false;
    }
    return true;
}

static double mean_loss(const rows_job *job, size_t rows)
{
    if (rows == 0)
        return 0.0;
    lsi_parallel_for(rows, grain(job->cols), forward_rows,
                     &(rows_job){.x = job->x,
                                 .labels = job->labels,
                                 .loss = job->loss,
                                 .lse = job->lse,
                                 .cols = job->cols});
    return lsi_span_sum(job->loss, NULL, rows) / (double)rows;
}

ls_tensor *ls_cross_entropy(ls_tape *tape, ls_tensor *logits, ls_tensor *labels)
{
    if (!lsi_op_begin_f32(tape, &lsi_op_cross_entropy, &logits, 1) ||
        !lsi_op_begin(tape, &lsi_op_cross_entropy, &labels, 1) ||
        !check_shapes(tape, logits, labels))
        return NULL;
    const int64_t rows = logits->shape[0], classes = logits->shape[1];
    ls_tensor *const saved[] = {lsi_op_plain(tape, logits),
                                lsi_op_plain(tape, labels),
                                lsi_op_temp(tape, LS_F32, 1, &rows)};
    const ls_tensor *losses = lsi_op_temp(tape, LS_F32, 1, &rows);
    ls_tensor *y = ls_tape_output(tape, LS_F32, 0, NULL);
    if (y == NULL ||
        !check_labels(tape, lsi_tensor_raw(saved[LABELS]), rows, classes))
        return NULL;
    const rows_job job = {.x = lsi_op_floats(saved[LOGITS]),
                          .labels = lsi_tensor_raw(saved[LABELS]),
                          .loss = lsi_op_floats(losses),
                          .lse = lsi_op_floats(saved[LSE]),
                          .cols = (size_t)classes};
    lsi_op_floats(y)[0] = (float)mean_loss(&job, (size_t)rows);
    return ls_tape_record(tape, &lsi_op_cross_entropy, NULL, &logits, 1, &y, 1,
                          saved, 3);
}

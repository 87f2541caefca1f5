/* Losses; see losses.h. */
#include "array/compute/losses.h"

#include "array/compute/array.h"
#include "array/compute/compute.h"
#include "array/compute/threads.h"
#include "array/kernels/kernels.h"
#include "base/error.h"
#include "base/half.h"
#include "observe/spans.h"

/* ---- cross entropy ------------------------------------------------------- */

/* Rows are computed one by one, so threads may divide them as they like. */
typedef struct rows_job {
    const lsi_cross_entropy *ce;
    float *loss; /* forward */
    lsi_softmax_row *saved;
    float *dx; /* backward */
    const lsi_softmax_row *saved_of;
    float factor;
    bool accumulate;
} rows_job;

/* Rows that make up a few thousand elements. */
static size_t grain(size_t cols)
{
    return 1 + ((size_t)1 << 13) / (cols + 1);
}

static void forward_rows(void *context, size_t begin, size_t end)
{
    const rows_job *job = context;
    const lsi_cross_entropy *ce = job->ce;
    lsi_kernels_get()->cross_entropy(
        job->loss + begin, job->saved + begin, ce->x + begin * ce->cols,
        ce->labels + begin, ce->smoothing, end - begin, ce->cols);
}

ls_status lsi_cross_entropy_forward(const lsi_cross_entropy *ce, float *mean,
                                    float *losses, lsi_softmax_row *saved)
{
    LSI_SPAN(KERNEL, "cross_entropy", 4 * ce->rows * ce->cols,
             3 * ce->rows * ce->cols);
    LS_TRY(lsi_compute_check_indices("cross_entropy: the label of row",
                                     (lsi_indices){ce->labels, ce->rows, 1},
                                     (int64_t)ce->cols));
    *mean = 0.0F;
    if (ce->rows == 0)
        return LS_OK;
    lsi_parallel_for(ce->rows, grain(ce->cols), forward_rows,
                     &(rows_job){.ce = ce, .loss = losses, .saved = saved});
    *mean = (float)(lsi_array_total(losses, NULL, ce->rows) / (double)ce->rows);
    return LS_OK;
}

static void backward_rows(void *context, size_t begin, size_t end)
{
    const rows_job *job = context;
    const lsi_cross_entropy *ce = job->ce;
    const size_t first = begin * ce->cols;
    lsi_kernels_get()->cross_entropy_backward(
        job->dx + first, ce->x + first, job->saved_of + begin,
        ce->labels + begin, ce->smoothing, job->factor, end - begin, ce->cols,
        job->accumulate);
}

ls_status lsi_cross_entropy_backward(const lsi_cross_entropy *ce,
                                     const float *dy,
                                     const lsi_softmax_row *saved, float *dx,
                                     bool accumulate)
{
    LSI_SPAN(KERNEL, "cross_entropy_backward", 8 * ce->rows * ce->cols,
             3 * ce->rows * ce->cols);
    LS_TRY(lsi_compute_check_indices("cross_entropy backward: the label of row",
                                     (lsi_indices){ce->labels, ce->rows, 1},
                                     (int64_t)ce->cols));
    rows_job job = {.ce = ce,
                    .dx = dx,
                    .saved_of = saved,
                    .factor = (float)((double)*dy / (double)ce->rows),
                    .accumulate = accumulate};
    lsi_parallel_for(ce->rows, grain(ce->cols), backward_rows, &job);
    return LS_OK;
}

/* ---- squared differences ------------------------------------------------- */

void lsi_mse_forward(float *y, const float *a, const float *b, size_t n)
{
    LSI_SPAN(KERNEL, "mse", 8 * n, 3 * n);
    *y = n > 0 ? (float)(lsi_array_total(a, b, n) / (double)n) : 0.0F;
}

void lsi_mse_backward(float *da, const float *dy, double sign, const float *a,
                      const float *b, size_t n)
{
    LSI_SPAN(KERNEL, "mse_backward", 12 * n, 2 * n);
    lsi_array_sub(da, a, b, n);
    lsi_array_scale(da, da, (float)(sign * (2.0 * (double)*dy / (double)n)), n);
}

/* ---- binary cross entropy ------------------------------------------------ */

typedef struct bce_job {
    float *dx;
    const float *x, *t;
    float factor;
} bce_job;

void lsi_bce_forward(float *y, const float *x, const float *t, size_t n)
{
    LSI_SPAN(KERNEL, "bce", 8 * n, 5 * n);
    *y = n > 0 ? (float)(lsi_array_total_bce(x, t, n) / (double)n) : 0.0F;
}

static void bce_range(void *context, size_t begin, size_t end)
{
    const bce_job *j = context;
    lsi_kernels_get()->bce_with_logits_backward(
        j->dx + begin, j->x + begin, j->t + begin, j->factor, end - begin);
}

void lsi_bce_backward(float *dx, const float *dy, const float *x,
                      const float *t, size_t n)
{
    LSI_SPAN(KERNEL, "bce_backward", 12 * n, 4 * n);
    bce_job job = {dx, x, t, (float)((double)*dy / (double)n)};
    lsi_parallel_for(n, grain(1), bce_range, &job);
}

void lsi_bce_target_backward(float *dt, const float *dy, const float *x,
                             size_t n)
{
    LSI_SPAN(KERNEL, "bce_target_backward", 8 * n, n);
    lsi_array_scale(dt, x, (float)(-(double)*dy / (double)n), n);
}

/* ---- accuracy ------------------------------------------------------------ */

static float element(const lsi_accuracy *a, int64_t row, int64_t col)
{
    const int64_t at = row * a->row_stride + col * a->col_stride;
    switch (a->dtype) {
    case LS_BF16:
        return lsi_bf16_to_f32(((const uint16_t *)a->x)[at]);
    case LS_F16:
        return lsi_f16_to_f32(((const uint16_t *)a->x)[at]);
    default:
        return ((const float *)a->x)[at];
    }
}

static bool is_correct(const lsi_accuracy *a, int64_t row, int64_t label)
{
    const float value = element(a, row, label);
    for (int64_t c = 0; c < a->cols; c++) {
        const float other = element(a, row, c);
        if (c < label ? !(other < value) : !(other <= value))
            return false;
    }
    return true;
}

ls_status lsi_accuracy_count(const lsi_accuracy *a, int64_t *correct)
{
    LSI_SPAN(KERNEL, "accuracy",
             (uint64_t)(a->rows * a->cols) * ls_dtype_size(a->dtype), 0);
    int64_t count = 0;
    LS_TRY(lsi_compute_check_indices(
        "ls_count_correct: the label of row",
        (lsi_indices){a->labels, (size_t)a->rows, a->label_stride}, a->cols));
    for (int64_t r = 0; r < a->rows; r++)
        count += is_correct(a, r, a->labels[r * a->label_stride]);
    *correct = count;
    return LS_OK;
}

/*
 * Along the last axis whole rows are the kernels' work. Along another one it is
 * done for some columns at once, by element-wise kernels on the parts of rows
 * that these columns have.
 */
#include "array/compute/softmax.h"
#include "observe/spans.h"

#include <math.h>

#include "array/compute/threads.h"
#include "array/kernels/kernels.h"

enum {
    GRAIN = 1 << 12, /* elements worth a thread */
    COLUMNS = 256    /* that are looked at together */
};

typedef struct softmax_job {
    lsi_softmax_kind kind;
    lsi_along shape;
    float *out;
    const float *x, *dy, *y; /* forward reads x, backward the others */
} softmax_job;

static size_t grain_of(size_t work)
{
    return 1 + GRAIN / (work + 1);
}

/* ---- rows ---------------------------------------------------------------- */

static void forward_rows(void *context, size_t begin, size_t end)
{
    const softmax_job *j = context;
    const lsi_kernels *k = lsi_kernels_get();
    const size_t n = j->shape.n, at = begin * n;
    (j->kind == LSI_SOFTMAX ? k->softmax : k->log_softmax)(
        j->out + at, j->x + at, end - begin, n);
}

static void backward_rows(void *context, size_t begin, size_t end)
{
    const softmax_job *j = context;
    const lsi_kernels *k = lsi_kernels_get();
    const size_t n = j->shape.n, at = begin * n;
    (j->kind == LSI_SOFTMAX ? k->softmax_backward : k->log_softmax_backward)(
        j->out + at, j->dy + at, j->y + at, end - begin, n);
}

/* ---- columns ------------------------------------------------------------- */

/* Neighbouring columns, from an element on. */
typedef struct columns {
    size_t at, n;
} columns;

static size_t tasks_of(lsi_along shape)
{
    return shape.outer * ((shape.inner + COLUMNS - 1) / COLUMNS);
}

static columns columns_of(lsi_along shape, size_t task)
{
    const size_t across = (shape.inner + COLUMNS - 1) / COLUMNS;
    const size_t first = task % across * COLUMNS;
    const size_t left = shape.inner - first;
    return (columns){task / across * shape.n * shape.inner + first,
                     left < COLUMNS ? left : COLUMNS};
}

static void find_largest(const softmax_job *j, columns c, float *most)
{
    const lsi_kernels *k = lsi_kernels_get();
    k->fill(most, -INFINITY, c.n);
    for (size_t r = 0; r < j->shape.n; r++)
        k->larger(most, most, j->x + c.at + r * j->shape.inner, c.n);
}

static void forward_columns(const softmax_job *j, columns c)
{
    const lsi_kernels *k = lsi_kernels_get();
    const bool is_log = j->kind == LSI_LOG_SOFTMAX;
    float most[COLUMNS], sum[COLUMNS], e[COLUMNS];
    find_largest(j, c, most);
    k->fill(sum, 0.0F, c.n);
    for (size_t r = 0; r < j->shape.n; r++) {
        const size_t at = c.at + r * j->shape.inner;
        float *y = j->out + at, *power = is_log ? e : y;
        k->sub(y, j->x + at, most, c.n);
        k->exp(power, y, c.n);
        k->add(sum, sum, power, c.n);
    }
    if (is_log)
        k->log(sum, sum, c.n);
    else
        k->number_over(sum, sum, 1.0F, c.n);
    for (size_t r = 0; r < j->shape.n; r++) {
        float *y = j->out + c.at + r * j->shape.inner;
        (is_log ? k->sub : k->mul)(y, y, sum, c.n);
    }
}

static void softmax_columns_backward(const softmax_job *j, columns c)
{
    const lsi_kernels *k = lsi_kernels_get();
    float sum[COLUMNS], g[COLUMNS];
    k->fill(sum, 0.0F, c.n);
    for (size_t r = 0; r < j->shape.n; r++) {
        const size_t at = c.at + r * j->shape.inner;
        k->mul(g, j->dy + at, j->y + at, c.n);
        k->add(sum, sum, g, c.n);
    }
    for (size_t r = 0; r < j->shape.n; r++) {
        const size_t at = c.at + r * j->shape.inner;
        k->sub(g, j->dy + at, sum, c.n);
        k->mul(j->out + at, j->y + at, g, c.n);
    }
}

static void log_columns_backward(const softmax_job *j, columns c)
{
    const lsi_kernels *k = lsi_kernels_get();
    float sum[COLUMNS], g[COLUMNS];
    k->column_sum(sum, j->dy + c.at, j->shape.n, c.n, j->shape.inner, false);
    for (size_t r = 0; r < j->shape.n; r++) {
        const size_t at = c.at + r * j->shape.inner;
        k->exp(g, j->y + at, c.n);
        k->mul(g, g, sum, c.n);
        k->sub(j->out + at, j->dy + at, g, c.n);
    }
}

static void forward_range(void *context, size_t begin, size_t end)
{
    const softmax_job *j = context;
    for (size_t task = begin; task < end; task++)
        forward_columns(j, columns_of(j->shape, task));
}

static void backward_range(void *context, size_t begin, size_t end)
{
    const softmax_job *j = context;
    for (size_t task = begin; task < end; task++)
        (j->kind == LSI_SOFTMAX
             ? softmax_columns_backward
             : log_columns_backward)(j, columns_of(j->shape, task));
}

/* ---- both ---------------------------------------------------------------- */

static void run_softmax(softmax_job *j, lsi_range_fn rows,
                        lsi_range_fn by_columns)
{
    const lsi_along s = j->shape;
    if (s.n == 0)
        return;
    if (s.inner == 1)
        lsi_parallel_for(s.outer, grain_of(s.n), rows, j);
    else
        lsi_parallel_for(tasks_of(s), grain_of(s.n * COLUMNS), by_columns, j);
}

void lsi_softmax(lsi_softmax_kind kind, lsi_along shape, float *y,
                 const float *x)
{
    LSI_SPAN(KERNEL, "softmax", 8 * shape.outer * shape.n * shape.inner,
             5 * shape.outer * shape.n * shape.inner);
    run_softmax(&(softmax_job){.kind = kind, .shape = shape, .out = y, .x = x},
                forward_rows, forward_range);
}

void lsi_softmax_backward(lsi_softmax_kind kind, lsi_along shape, float *dx,
                          const float *dy, const float *y)
{
    LSI_SPAN(KERNEL, "softmax_backward",
             12 * shape.outer * shape.n * shape.inner,
             4 * shape.outer * shape.n * shape.inner);
    run_softmax(
        &(softmax_job){
            .kind = kind, .shape = shape, .out = dx, .dy = dy, .y = y},
        backward_rows, backward_range);
}
